"""Safe web access: addresses are checked, sizes are limited."""
