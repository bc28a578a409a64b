"""Settings: schema, loading, where they live."""
