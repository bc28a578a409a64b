"""Shutting commands in: what they may see, change and reach."""
