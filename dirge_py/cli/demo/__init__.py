"""A small bundled repository, and the replies of a scripted model that fixes it."""
