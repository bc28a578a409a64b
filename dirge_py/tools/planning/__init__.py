"""What the todo tool works with."""
