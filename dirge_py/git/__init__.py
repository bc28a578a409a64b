"""Repositories that are read and copied without git, and git as dirge runs it."""
