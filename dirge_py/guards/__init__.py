"""Guards: sets of hooks that may stop or redirect a run, one module for each concern."""
