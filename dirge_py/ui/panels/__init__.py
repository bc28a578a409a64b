"""Small widgets docked around the transcript."""
