"""The records and the protocol of provider setup. Imports nothing, so that a UI may read them."""

from collections.abc import Sequence
from dataclasses import field
from typing import Literal, Protocol

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChoice:
    """A kind of provider that can be set up."""

    type: str
    """The service, as in config/services.toml."""
    label: str
    """Its name for people."""
    standing: Literal["found", "key", "known"] = "known"
    """It answers on this machine, its key is in the environment, or it is merely known."""
    base_url: str = ""
    """Its address; empty: it is asked for."""
    key_env: tuple[str, ...] = ()
    """Variables that usually hold its key."""
    needs_key: bool = True
    """Whether it can do nothing without a key."""
    model: str = ""
    """The model that is proposed; empty: none."""
    models: tuple[str, ...] = ()
    """Those that a server on this machine has."""
    is_own: bool = False
    """Nothing is known of it but what it speaks: its address, key and name are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDraft:
    """The answers of a person who sets up a provider.

    Either `key_env` names a variable, or `key` is the key, or neither.
    """

    type: str
    """The service, as in config/services.toml."""
    alias: str
    """Its name in the settings."""
    model: str = ""
    """The service's own id of the model; empty: still open."""
    base_url: str = ""
    """Empty: the usual one."""
    allow_insecure: bool = False
    """The address is one without encryption, on another machine."""
    key_env: str = ""
    """The variable that holds the key."""
    key: str = field(default="", repr=False)
    """The key as it was typed."""


class SetupService(Protocol):
    """Writes the first provider into the configuration."""

    async def offers(self) -> Sequence[ProviderChoice]:
        """What can be set up, the likeliest first."""

    async def models(self, draft: ProviderDraft) -> Sequence[str]:
        """The models that it lists, `draft.model` being open still. Raises DirgeError."""

    async def try_out(self, draft: ProviderDraft) -> str:
        """Make one small request; returns what to tell the person. Raises DirgeError."""

    def replaces(self, draft: ProviderDraft) -> bool:
        """Whether the settings have a provider of that name already. Raises ConfigError."""

    def save(self, draft: ProviderDraft) -> str:
        """Store it, a key in a file that only its owner reads; returns where."""
