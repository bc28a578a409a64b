"""The todo list of a conversation."""
