"""What a model is told of commands: how they ended, how those in the background are."""
