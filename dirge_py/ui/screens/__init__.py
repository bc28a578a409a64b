"""Panels that take the whole screen."""
