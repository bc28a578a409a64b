"""Plugins: one file each, found, loaded, asked with a time limit, and never trusted to work."""
