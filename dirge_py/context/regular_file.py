"""Where `context` finds `read_regular`."""

from dirge_py.files.regular_file import read_regular as read_regular
