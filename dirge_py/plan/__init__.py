"""`/plan`: a big request in four phases, with a review that trusts only commands it ran itself."""
