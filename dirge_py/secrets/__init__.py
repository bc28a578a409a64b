"""Keys: where they come from, and how they are kept out of what we write."""
