"""The vocabulary that every other package shares. It imports only `lib`."""
