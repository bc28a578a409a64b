"""Sandboxes commands: limits what they may see, change and reach."""
