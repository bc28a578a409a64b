"""Snapshots of the project's files: taken around runs, restored by `/undo` and `/rewind`."""
