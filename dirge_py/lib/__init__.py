"""Small pure functions that know nothing of agents."""
