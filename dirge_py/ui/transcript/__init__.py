"""The conversation, drawn as one widget."""
