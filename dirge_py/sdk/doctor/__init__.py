"""Checks of the terminal, settings, providers and programs for `dirge doctor`, with fixes."""
