"""Reading and writing files inside the places we were given."""
