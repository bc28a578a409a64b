"""Memory that lasts from one session to the next."""
