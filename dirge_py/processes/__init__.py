"""Starts commands, limits their output, and ends all their processes."""
