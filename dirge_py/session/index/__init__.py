"""A searchable list of all sessions in SQLite, which is only a cache of the journals."""
