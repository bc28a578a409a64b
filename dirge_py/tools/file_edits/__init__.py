"""Finding the text an edit means, replacing it byte for byte, and showing the difference."""
