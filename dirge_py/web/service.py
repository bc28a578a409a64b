"""The web as tools may use it."""


class Web:
    """Fetching pages and searching, for one conversation."""
