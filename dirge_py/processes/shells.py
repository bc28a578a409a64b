"""Commands that go on in the background while the conversation does."""


class Shells:
    """The background commands of one conversation."""
