"""Watching a run from outside: the log file."""
