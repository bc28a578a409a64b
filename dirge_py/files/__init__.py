"""Reads and writes files inside the folders of the workspace."""
