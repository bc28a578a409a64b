"""The terminal UI in a browser on this machine: textual-serve behind a token."""
