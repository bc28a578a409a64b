"""A small bundled repository, and the script that mends it."""
