"""Line mode: a conversation as lines of plain text, for dumb terminals, screen readers, scripts."""
