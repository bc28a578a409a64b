"""Small pure functions without any knowledge of agents."""
