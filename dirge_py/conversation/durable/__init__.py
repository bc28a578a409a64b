"""Where side effects can be handed to an engine that outlives this process."""
