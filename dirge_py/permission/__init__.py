"""What may happen, and which rule said so."""
