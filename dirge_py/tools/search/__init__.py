"""File search: the regular expression dialect, the search program, and how paths are shown."""
