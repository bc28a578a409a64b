"""Settings, sessions, plugins and scripts of an earlier version still work.

These tests know the program by its doors alone: the command line, the files, the wire, and the
names that plugins and scripts import. They say what must not change, whatever moves inside.
"""
