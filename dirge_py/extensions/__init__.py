"""Capabilities that ship with dirge: one folder each, listed in `sdk/extensions.py`."""
