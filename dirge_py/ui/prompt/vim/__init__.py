"""Vim's keys over a text and a cursor: nothing here knows of a screen."""
