"""The records and the protocol of provider setup. Imports nothing, so that a UI may read them."""

from collections.abc import Sequence
from dataclasses import field
from typing import Literal, Protocol

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChoice:
    """A kind of provider that could be set up. `key_env`: variables that usually hold its key.

    `standing`: it answers on this machine, with these `models`; its key is in the environment; or
    it is merely known. `is_own`: nothing is known of it but what it speaks: its address is asked
    for, whether it wants a key, and what it is to be called.
    """

    type: str
    label: str
    standing: Literal["found", "key", "known"] = "known"
    base_url: str = ""
    key_env: tuple[str, ...] = ()
    needs_key: bool = True
    model: str = ""
    models: tuple[str, ...] = ()
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDraft:
    """What was filled in. Either `key_env` names a variable, or `key` is the key, or neither.

    `alias`: its name in the settings. `allow_insecure`: the address is one without encryption, on
    another machine.
    """

    type: str
    alias: str
    model: str = ""
    base_url: str = ""
    allow_insecure: bool = False
    key_env: str = ""
    key: str = field(default="", repr=False)


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
