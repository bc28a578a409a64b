"""A scripted model, a clock and checks, for tests of code that uses dirge."""
