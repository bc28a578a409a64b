"""Front ends without a screen of their own, and what all front ends share."""
