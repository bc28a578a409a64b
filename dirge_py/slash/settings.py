"""`/model`, `/effort`, `/prompt`, `/config` and `/status`: show and change a session's settings."""

import asyncio
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dirge_py.files.atomic import atomic_write
from dirge_py.git.repository import branch_of
from dirge_py.lib.lazy import late
from dirge_py.lib.nearest import nearest
from dirge_py.lib.text import format_count, format_usd, visible
from dirge_py.lib.text_width import align_columns
from dirge_py.lib.version import __version__
from dirge_py.slash.base import Choice, FrontEnd, Unsupported, command, pick_name
from dirge_py.slash.runs import running_commands
from dirge_py.types.errors import ConfigError, DirgeError, UsageError

if TYPE_CHECKING:
    from dirge_py.config.commands import changed_settings, config_init
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.types.llm import ModelOption, ThinkingLevel
else:
    changed_settings = late("dirge_py.config.commands", "changed_settings")
    config_init = late("dirge_py.config.commands", "config_init")

_AT_ONCE_S = 1.0
_LEVELS = {
    "off": "no thinking, if the model allows it",
    "minimal": "very little",
    "low": "a little, for simple work",
    "medium": "the default of most services",
    "high": "a lot, for hard work",
    "xhigh": "as much as the model can",
}
_NONE = "none"
_LATER = "Most of it applies from the next session on: /clear starts one."
_MOST_TOOLS = 40


@command(
    "model",
    "show or switch the model",
    usage="[alias/]id[:level] | alias/",
    headless=True,
    complete=lambda conversation: [choice.spec for choice in conversation.settings.models()],
)
async def model(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    """Switch the model. After a name that ends in `/`, the user picks from all its models."""
    settings = conversation.settings
    spec: str | None = (args.strip("/") and args) or await _pick_model(conversation, front)
    if spec is not None and spec.endswith("/"):
        spec = await _pick_from_service(spec.rstrip("/"), conversation, front)
    if spec is not None:
        before, now = settings.thinking, settings.set_model(spec)
        level = settings.thinking
        thinking = f", thinking {level}," if level != before else ""
        words = f"Model: {now}{thinking} from the next turn on."
        front.show(f"{words}\n{_for_new_sessions('model', now)}", tone="good")
        if spec == args:
            await _warn_if_unlisted(now, conversation, front)


def _for_new_sessions(setting: str, model: str) -> str:
    alias = model.partition("/")[0]
    return f"This session keeps it. For new ones, set `{setting}` under [providers.{alias}]."


async def _warn_if_unlisted(name: str, conversation: "Conversation", front: FrontEnd) -> None:
    """Warn if the service, which is asked for its models, doesn't list a model unknown to dirge."""
    settings, (alias, _, model_id) = conversation.settings, name.partition("/")
    if alias not in settings.services() or name in [each.spec for each in settings.models()]:
        return
    try:
        async with asyncio.timeout(_AT_ONCE_S):
            listed = [option.spec for option in await settings.models_of(alias)]
    except (TimeoutError, DirgeError):
        return
    if listed and not {name, f"{name}:latest"} & set(listed):
        near = nearest(name, listed)
        meant = f" Did you mean {near}?" if near else ""
        words = (
            f"{alias} doesn't list {visible(model_id)}.{meant} /model {alias}/ shows its models."
        )
        front.show(words, tone="warning")


async def _pick_model(conversation: "Conversation", front: FrontEnd) -> str | None:
    current = conversation.settings.model
    options = conversation.settings.models()
    # The models of one provider together, those of the current model's provider first.
    aliases = [option.spec.partition("/")[0] for option in options]
    ordered = sorted(options, key=lambda option: aliases.index(option.spec.partition("/")[0]))
    choices = [_model_choice(option) for option in ordered]
    if choices and current not in [choice.id for choice in choices]:
        choices.insert(0, Choice(id=current, label=current))
    choices += [
        Choice(id=f"{alias}/", label=f"{alias}/…", detail="show all models")
        for alias in conversation.settings.services()
    ]
    if not choices:
        front.show(f"The model is {current}; no other model is configured.")
        return None
    return await front.pick("Model", choices, current=current)


async def _pick_from_service(
    alias: str, conversation: "Conversation", front: FrontEnd
) -> str | None:
    listing = asyncio.ensure_future(conversation.settings.models_of(alias))
    try:
        if not (await asyncio.wait({listing}, timeout=_AT_ONCE_S))[0]:
            front.show(f"Fetching the models of {alias} …")
        choices = [_model_choice(option) for option in await listing]
    finally:
        listing.cancel()
    if not choices:
        raise UsageError(f"{alias} lists no models.", hint=f"Give its id: /model {alias}/ID")
    return await front.pick(f"Models of {alias}", choices, current=conversation.settings.model)


def _model_choice(option: "ModelOption") -> Choice:
    window = f"{format_count(option.window_tokens)} tokens" if option.window_tokens else ""
    detail = "  ".join(part for part in (window, option.price) if part)
    return Choice(id=option.spec, label=option.spec, detail=detail)


@command(
    "effort",
    "show or set how long the model thinks",
    usage="[off|minimal|low|medium|high|xhigh]",
    aliases=("thinking", "think"),
    complete=lambda conversation: list(_LEVELS),
    headless=True,
)
async def effort(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    settings = conversation.settings
    chosen = await pick_name(
        args, front, "Thinking", _LEVELS, current=settings.thinking, noun="level"
    )
    if chosen is not None:
        settings.set_thinking(cast("ThinkingLevel", chosen))
        words = f"Thinking {chosen} from the next turn on: {_LEVELS[chosen]}."
        front.show(f"{words}\n{_for_new_sessions('thinking', settings.model)}", tone="good")


@command(
    "prompt",
    "use one of your prompts, with the tools and model it sets",
    usage="[NAME|none]",
    while_running="no",
    complete=lambda c: [*c.settings.prompts.names, _NONE],
)
async def prompt(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    book = conversation.settings.prompts
    if not book.names:
        hint = "To add one, write `prompts/<name>.md` next to your config.toml."
        raise UsageError("There are no prompts.", hint=hint)
    details = {name: book.describe(name) for name in book.names} | {_NONE: "use none"}
    choices = [Choice(id=name, label=name, detail=detail) for name, detail in details.items()]
    current = book.current.name if book.current is not None else _NONE
    name = args or await front.pick("Prompt", choices, current=current)
    if name is None:
        return
    chosen = conversation.settings.choose_prompt(None if name == _NONE else name)
    if chosen is None:
        front.show("No prompt is in use from the next run on.", tone="good")
        return
    effects = chosen.effects()
    note = f" It {' and '.join(effects)}." if effects else ""
    front.show(f"The prompt {chosen.name} is in use from the next run on.{note}", tone="good")


@command(
    "config",
    "show the settings you changed; `edit` opens the file in your editor and checks it",
    usage="[edit]",
    aliases=("settings",),
    complete=lambda conversation: ["edit"],
)
async def config(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    file = front.settings_file
    if file is None:
        raise UsageError("There are no settings to show here.", hint="Start `dirge` in a project.")
    if args == "edit":
        await _edit(front, file)
        return
    if args:
        hint = "/config shows what is set, /config edit opens the file in your editor."
        raise UsageError(f"/config doesn't take {args!r}.", hint=hint)
    rows = [f"  {line}" for line in changed_lines(front) or ["nothing changed: the defaults apply"]]
    note = "" if file.exists() else " (not created yet)"
    after = "/config edit changes it. `dirge config show` prints every setting."
    front.show("\n".join([f"Settings: {file}{note}", *rows, after]))


def changed_lines(front: FrontEnd) -> list[str] | None:
    """Return the changed settings, one per line; None if `front` has none. Raises ConfigError."""
    settings = front.settings()
    return changed_settings(settings) if settings is not None else None


async def _edit(front: FrontEnd, file: Path) -> None:
    if not file.exists():
        config_init(path=file)
    before = file.read_text(encoding="utf-8")
    after = await front.edit_text(before)
    if after is None or after.rstrip("\n") == before.rstrip("\n"):
        front.show("Nothing was changed.")
        return
    if file.read_text(encoding="utf-8") != before:
        raise ConfigError(f"Another program changed {file} in the meantime; nothing was written.")
    text = after if after.endswith("\n") else f"{after}\n"
    atomic_write(file, text.encode(), mode=file.stat().st_mode & 0o777)
    try:
        front.settings()
    except ConfigError as error:
        front.show(
            f"Written, but the settings are not valid:\n{error.message}\n{error.hint}".strip(),
            tone="error",
        )
        front.set_input("/config edit")
        return
    front.show(f"{file} was written and is valid. {_LATER}", tone="good")


@command(
    "status",
    "show version, session, folders, model, mode, settings, tools and cost",
    headless=True,
)
async def status(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    profile = await asyncio.to_thread(conversation.environment.read_only_profile)
    rows = [
        ("version", f"dirge {__version__}, Python {platform.python_version()}"),
        *_session_rows(conversation, profile),
        *_settings_rows(front),
        *_extension_rows(conversation, front),
    ]
    front.show("\n".join(align_columns([(name, visible(text)) for name, text in rows if text])))


def _session_rows(conversation: "Conversation", profile: str) -> Iterator[tuple[str, str]]:
    settings, environment = conversation.settings, conversation.environment
    if conversation.session_id is None:
        yield "session", "not stored"
    else:
        yield "session", f"{conversation.session_id}  {conversation.unsent.title}".rstrip()
        yield "file", str(conversation.timeline.file or "")
    branch = branch_of(conversation.cwd)
    yield "folder", f"{conversation.cwd}{f' · {branch}' if branch else ''}"
    yield "added folders", ", ".join(settings.folders[1:])
    yield "mode", f"{settings.mode}; {len(settings.grants)} rules for this session"
    yield "sandbox", environment.sandbox or "none"
    yield "read-only profile", profile
    yield "model", f"{settings.model}, thinking {settings.thinking}"
    used, window = conversation.context_tokens, settings.window_tokens
    share = f" ({used / window:.0%})" if window else ""
    yield "context", f"{used:,} of {window:,} tokens{share}"
    cost = format_usd(conversation.cost_usd, conversation.least_usd)
    yield "cost", f"{cost}, {conversation.usage.total:,} tokens"


def _settings_rows(front: FrontEnd) -> Iterator[tuple[str, str]]:
    try:
        if (file := front.settings_file) is None:
            return
        yield "settings", f"{file}{'' if file.exists() else ' (none: the defaults apply)'}"
        settings = front.settings()
        roles = settings.roles.named() if settings is not None else ()
        yield "roles", ", ".join(f"{role} {spec}" for role, spec in roles)
    except Unsupported:
        return
    except DirgeError as error:
        yield "", error.in_one_line()


def _extension_rows(conversation: "Conversation", front: FrontEnd) -> Iterator[tuple[str, str]]:
    yield "instructions", ", ".join(conversation.environment.instruction_files) or "none"
    book = conversation.settings.prompts
    yield "prompt", book.current.name if book.current else ""
    yield "tools", ", ".join([*conversation.offered_tool_names][:_MOST_TOOLS]) or "none"
    for extension in conversation.extensions.all:
        status = extension.status()
        yield extension.name, status.text if status is not None else ""
    running = len(running_commands(conversation))
    yield "background", f"{running} commands running" if running else ""
