"""What was said and done, drawn as one widget."""
