"""Slash commands of line mode alone."""
