"""Settings, sessions, plugins and scripts of an earlier version still work.

These tests use only public interfaces: the command line, files, requests to model services, and
the names that plugins and scripts import. They fail if an internal change breaks one of these.
"""
