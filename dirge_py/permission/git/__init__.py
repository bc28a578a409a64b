"""What git would run, read and show, found without running it."""
