"""dirge as a library: an `Agent` with tools, run, watched, stepped or driven turn by turn."""
