"""Stored conversations: append-only journals."""
