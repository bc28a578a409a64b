"""A list of all sessions that can be searched: in SQLite, and only a cache of the journals."""
