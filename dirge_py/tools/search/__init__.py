"""Searching files by pattern: the dialect, the program that searches, and how paths are shown."""
