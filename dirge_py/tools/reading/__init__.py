"""Reading files: text in its encoding, and what is looked at as it is."""
