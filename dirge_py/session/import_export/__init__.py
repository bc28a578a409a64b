"""Export of sessions to files, and import of other programs' sessions."""
