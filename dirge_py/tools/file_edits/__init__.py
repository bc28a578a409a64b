"""Finds the text of an edit, replaces it byte for byte, and shows the difference."""
