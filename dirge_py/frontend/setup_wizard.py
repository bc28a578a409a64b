"""The first provider: a few questions, one test request, and it is written down."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dirge_py.frontend.setup_form import Desk, Say, fill_in, set_key, told, with_name
from dirge_py.providers.setup_types import ProviderChoice, ProviderDraft, SetupService
from dirge_py.slash.base import Choice
from dirge_py.types.errors import DirgeError

Ending = Literal["stored", "demo", "given up"]

_DEMO = "\n demo"
"""No service is called like this."""


async def set_up(
    desk: Desk, say: Say, service: SetupService, why: str, *, has_demo: bool
) -> Ending:
    """Ask until a provider works and is stored, or the person would rather not.

    Whoever leaves a question goes back to the list of providers; whoever leaves that gives up.
    `has_demo`: seeing the demo is one of the answers.

    Raises:
        ConfigError, FileError: it cannot be stored.
    """
    if why:
        say(why, tone="warning")
    while True:
        offers = await service.offers()
        lines = _lines(offers, has_demo)
        chosen = await desk.pick(f"Which provider? Typing narrows these {len(lines)}.", lines, "")
        if chosen is None:
            return "given up"
        if chosen == _DEMO:
            return "demo"
        offer = offers[int(chosen)]
        draft = await _working(desk, say, service, offer)
        if draft is not None and offer.is_own:
            draft = await with_name(desk, say, draft)
        if draft is not None:
            if service.replaces(draft):
                say(f"The settings had a provider {draft.alias}, which this one replaces.")
            say(f"Stored in {service.save(draft)}.", tone="good")
            return "stored"


async def _working(
    desk: Desk, say: Say, service: SetupService, offer: ProviderChoice
) -> ProviderDraft | None:
    """One that answered, or is kept all the same; None if the person would rather not."""
    while (draft := await fill_in(desk, say, service, offer)) is not None:
        whom = draft.alias if offer.is_own else offer.label
        say(f"One test request to {whom}, model {draft.model} …")
        try:
            say(await service.try_out(draft), tone="good")
        except DirgeError as error:
            say(told(error), tone="error")
            answer = await _after_failure(desk)
            if answer is None:
                return None
            if answer == "again":
                offer = replace(offer, base_url=draft.base_url, model=draft.model)
                continue
        return draft
    return None


def _lines(offers: Sequence[ProviderChoice], has_demo: bool) -> Sequence[Choice]:
    """What is at hand, what anybody could use, and then the long list."""
    demo = Choice(id=_DEMO, label="See it work without a model", detail="plays `dirge demo`")
    choices = [
        Choice(id=str(at), label=offer.label, detail=_standing(offer))
        for at, offer in enumerate(offers)
    ]
    after_own = 1 + max((at for at, offer in enumerate(offers) if offer.is_own), default=-1)
    return [*choices[:after_own], *([demo] if has_demo else []), *choices[after_own:]]


def _standing(offer: ProviderChoice) -> str:
    if offer.standing == "found":
        number = len(offer.models)
        return f"answers at {offer.base_url}, {number} model{'' if number == 1 else 's'}"
    if offer.standing == "key":
        return f"{set_key(offer)} is set"
    if offer.is_own:
        return "OpenAI-compatible; its address is asked"
    return offer.base_url if offer.needs_key else f"does not answer at {offer.base_url}"


async def _after_failure(desk: Desk) -> str | None:
    choices = [
        Choice(id="again", label="fill it in again"),
        Choice(id="keep", label="keep it anyway"),
    ]
    return await desk.pick("The test request did not work.", choices, "again")
