"""Slash commands that need the terminal UI."""
