"""Slash commands, one file per family."""
