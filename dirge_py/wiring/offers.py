"""The records that setting up a provider is about. Imports nothing, so that a UI may read them."""

from dataclasses import field

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A kind of provider that could be set up. `key_env`: variables that usually hold its key."""

    type: str
    label: str
    base_url: str = ""
    key_env: tuple[str, ...] = ()
    needs_key: bool = True
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What was filled in. Either `key_env` names a variable, or `key` is the key, or neither."""

    type: str
    model: str
    base_url: str = ""
    key_env: str = ""
    key: str = field(default="", repr=False)
