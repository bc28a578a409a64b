"""The front ends without a screen, and the code that all front ends share."""
