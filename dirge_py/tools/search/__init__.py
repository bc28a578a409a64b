"""Finding lines: what is searched, by which program, and how the answer reads."""
