"""`/plan`: a big request in four phases, and a review that believes only what it ran itself."""
