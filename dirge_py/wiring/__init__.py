"""Settings in, a conversation out: the only place that knows every part."""
