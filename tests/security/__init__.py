"""What must not happen, tried many times: small in every run, in full size with `make security`."""
