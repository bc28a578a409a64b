"""Finds what git would run, read and show, without running git."""
