"""What source text means, as far as its syntax tells."""
