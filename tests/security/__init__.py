"""What must never happen, tried many times; `make security` runs the full size."""
