"""What is remembered from one session to the next."""
