"""`dirge --print`: one run, printed."""
