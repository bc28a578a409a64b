"""What an earlier version left must load and go on: settings, sessions, plugins, scripts.

These tests know the program by its doors alone: the command line, the files, the wire, and the
names that plugins and scripts import. They say what must not change, whatever moves inside.
"""
