"""Reaching the web without being led astray: addresses checked, sizes bounded."""
