"""The terminal under the UI: its driver, what it sends, its clipboard, other programs on it."""
