"""What every front end holds: one conversation, its runs, queues, events and settings."""
