"""Snapshots of a project's files, in a private git repository beside the sessions."""
