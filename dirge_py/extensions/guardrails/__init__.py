"""Checks of text that goes in or comes out: they pass, warn or trip, and never change it."""
