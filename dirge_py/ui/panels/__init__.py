"""Widgets around the transcript: panels, dialogs, lists."""
