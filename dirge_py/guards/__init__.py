"""Guards: sets of hooks that may stop or redirect a run, one file for each concern."""
