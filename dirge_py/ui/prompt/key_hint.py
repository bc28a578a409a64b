"""The line above the input: what the keys would do now, and in what state the input is."""

from typing import TYPE_CHECKING

from dirge_py.lib.text import clean
from dirge_py.ui.keymap import Scope

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


def key_hint(app: "DirgeApp") -> str:
    """Empty when there is nothing to say."""
    parts = [*_of_the_input(app), *_of_the_run(app), *_of_the_stash(app)]
    return " · ".join(part for part in parts if part)


def _of_the_input(app: "DirgeApp") -> list[str]:
    return [clean(app.composer.words)]


def _of_the_run(app: "DirgeApp") -> list[str]:
    name = app.keymap.name_of
    if app.talk.state == "compacting":
        return [f"{name('screen', 'interrupt')} interrupts"]
    if not app.talk.is_busy or app.talk.is_asking:
        return []
    is_between = not app.talk.is_running
    verbs: dict[tuple[Scope, str], str] = {
        ("screen", "interrupt"): "stops the plan" if is_between else "interrupts",
        ("composer", "submit"): "keeps it for the next run" if is_between else "steers",
        ("composer", "queue"): "queues for after",
    }
    if app.talk.waiting and not app.composer.text:
        verbs["composer", "up"] = "takes back"
        verbs["screen", "drop_queue"] = "drops it"
    # An action without a key has nothing to be told of it.
    named = [(name(scope, action), verb) for (scope, action), verb in verbs.items()]
    return [f"{key} {verb}" for key, verb in named if key]


def _of_the_stash(app: "DirgeApp") -> list[str]:
    count = len(app.composer.stashed)
    if not count:
        return []
    drafts = "1 draft stashed" if count == 1 else f"{count} drafts stashed"
    key = app.keymap.name_of("composer", "stash")
    if not key or app.composer.text.strip():
        return [drafts]
    return [f"{drafts}, {key} takes {'it' if count == 1 else 'the last'} back"]
