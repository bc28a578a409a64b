"""The first provider: a few questions, one test request, and it is written down."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from dirge_py.errors import DirgeError
from dirge_py.slash.base import Choice, Tone
from dirge_py.ui.start import SetupService
from dirge_py.wiring.offers import Draft, Offer

_TYPE_IT = "type"


class Say(Protocol):
    """Tells the person something."""

    def __call__(self, text: str, *, tone: Tone = "plain") -> None: ...


class Desk(Protocol):
    """Where the questions are asked."""

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None: ...
    async def ask_line(
        self, title: str, *, value: str = "", hidden: bool = False
    ) -> str | None: ...


async def set_up(desk: Desk, say: Say, service: SetupService, why: str) -> bool:
    """Ask until a provider works and is stored. False if the person gave up."""
    say(why, tone="warning")
    while True:
        draft = await _fill_in(desk, service.offers())
        if draft is None:
            say("Nothing was changed. Enter asks again, Ctrl+D leaves.")
            return False
        say(f"One test request to {draft.type}, model {draft.model} …")
        try:
            say(await service.try_out(draft), tone="good")
        except DirgeError as error:
            say("\n".join(p for p in (error.message, error.hint) if p), tone="error")
            if not await _keep_anyway(desk):
                continue
        say(f"Stored in {service.save(draft)}.", tone="good")
        return True


async def _fill_in(desk: Desk, offers: Sequence[Offer]) -> Draft | None:
    choices = [Choice(id=offer.type, label=offer.label, detail=offer.base_url) for offer in offers]
    chosen = await desk.pick("Which provider?", choices, "")
    offer = next((offer for offer in offers if offer.type == chosen), None)
    if offer is None:
        return None
    url = await desk.ask_line("Base URL", value=offer.base_url)
    model = await desk.ask_line("Model id", value=offer.model) if url is not None else None
    if not model or url is None:
        return None
    draft = Draft(type=offer.type, model=model.strip(), base_url=url.strip())
    return await _with_key(desk, offer, draft) if offer.needs_key else draft


async def _with_key(desk: Desk, offer: Offer, draft: Draft) -> Draft | None:
    choices = [
        Choice(id=name, label=f"${name}", detail="is set" if os.environ.get(name) else "not set")
        for name in offer.key_env
    ]
    choices.append(Choice(id=_TYPE_IT, label="type it", detail="kept in a file only you can read"))
    is_set = next((name for name in offer.key_env if os.environ.get(name)), _TYPE_IT)
    chosen = await desk.pick("Where is the key?", choices, is_set)
    if chosen is None:
        return None
    if chosen != _TYPE_IT:
        return replace(draft, key_env=chosen)
    key = await desk.ask_line("Key (it is not shown)", hidden=True)
    return replace(draft, key=key.strip()) if key and key.strip() else None


async def _keep_anyway(desk: Desk) -> bool:
    choices = [
        Choice(id="again", label="fill it in again"),
        Choice(id="keep", label="keep it anyway"),
    ]
    return await desk.pick("The test request did not work.", choices, "again") == "keep"
