"""Sessions as files for people and other programs, and other programs' sessions as ours."""
