"""`/config`: what is set and where, and changing it."""

from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.slash.base import FrontEnd, KnowsSettings, NeedsScreen, settings_of
from dirge_py.types.errors import ConfigError, UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.config.commands import changed_settings, config_init
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.files.atomic import atomic_write
else:
    changed_settings = late("dirge_py.config.commands", "changed_settings")
    config_init = late("dirge_py.config.commands", "config_init")
    atomic_write = late("dirge_py.files.atomic", "atomic_write")

_LATER = "Most of it holds from the next session on: /clear begins one."


async def config(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if not isinstance(front, KnowsSettings):
        raise NeedsScreen("showing the settings")
    file = front.settings_file
    if file is None:
        raise UsageError("There are no settings here.", hint="Start `dirge` in a project of yours.")
    match args:
        case "":
            _show(front, file)
        case "edit":
            await _edit(front, file)
        case _:
            raise UsageError(
                f"/config does not know {args!r}.",
                hint="/config shows what is set, /config edit opens the file in your editor.",
            )


def _show(front: FrontEnd, file: Path) -> None:
    settings = settings_of(front)
    changed = changed_settings(settings) if settings is not None else []
    rows = [f"  {line}" for line in changed] or ["  nothing: the defaults hold"]
    where = f"{file}{'' if file.exists() else ' (there is none yet)'}"
    after = "/config edit changes it. `dirge config show` prints every setting."
    front.show("\n".join([f"Settings: {where}", *rows, after]))


async def _edit(front: FrontEnd, file: Path) -> None:
    if not file.exists():
        config_init(path=file)
    before = file.read_text(encoding="utf-8")
    after = await front.edit_text(before)
    if after is None or after.rstrip("\n") == before.rstrip("\n"):
        front.show("Nothing was changed.")
        return
    if file.read_text(encoding="utf-8") != before:
        raise ConfigError(f"{file} was changed by somebody else meanwhile; nothing was written.")
    text = after if after.endswith("\n") else f"{after}\n"
    atomic_write(file, text.encode(), mode=file.stat().st_mode & 0o777)
    try:
        settings_of(front)
    except ConfigError as error:
        front.show(f"Written, but not usable:\n{error.message}\n{error.hint}".strip(), tone="error")
        front.set_input("/config edit")
        return
    front.show(f"{file} was written and holds. {_LATER}", tone="good")


def words(conversation: "Conversation") -> list[str]:
    return ["edit"]


COMMANDS = (
    Command(
        name="config",
        summary="what is set, and where; `edit` opens the file in your editor and checks it",
        usage="[edit]",
        run=config,
        aliases=("settings",),
        complete=words,
    ),
)
