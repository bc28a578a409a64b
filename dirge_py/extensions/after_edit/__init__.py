"""Commands that run after the model has edited a file."""
