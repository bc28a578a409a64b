"""Repositories found, read and copied without git, and git as dirge itself runs it."""
