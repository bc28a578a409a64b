"""Starting commands, bounding their output, and leaving nothing behind."""
