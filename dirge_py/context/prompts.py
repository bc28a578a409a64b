"""Named prompts, `prompts/<name>.md`: additions to the system prompt.

A file may begin with YAML between lines of `---`: `description` (for lists), `deny_tools` (denied
while it is in use), `allow_tools` (all others are denied and not offered), `model` (used with it),
`plugins` (the only ones that act; not in a project's prompt, since plugins may be checks),
`fs_reach` (the only folders that may be read or changed), `memory` (`own`: instead of the
project's) and `chunk_s` (the seconds that a service may be silent within an answer).
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from dirge_py.config.load import decode
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.lib.own_file import UnsafeFile
from dirge_py.types.errors import ConfigError, DirgeError, UsageError
from dirge_py.types.tools import PathLimit

_MAX_BYTES = 256 * 1024
_MARKED = late_pattern(r"---[ \t]*\n(?P<head>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEYS = (
    *("description", "deny_tools", "allow_tools", "model", "plugins", "fs_reach", "memory"),
    "chunk_s",
)
_NO_PROMPTS = "Prompts are files `prompts/<name>.md` next to your config.toml."
_SLIP = 0.7
"""How similar a name must be to that of a tool to be taken for a typo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPrompt:
    """One prompt."""

    name: str
    """The name that the user types."""
    text: str
    """The text for the model."""
    deny_tools: tuple[str, ...] = ()
    """Names of tools that may not be called, in lower case."""
    allow_tools: tuple[str, ...] | None = None
    """Names of the only tools that are offered, in lower case; None: all."""
    model: str = ""
    """The model that it is used with, as `[alias/]id[:level]`; empty: the chosen one."""
    plugins: tuple[str, ...] | None = None
    """Names of the only plugins that act; None: all."""
    path_limits: tuple[PathLimit, ...] = ()
    """The only folders that may be read, and changed."""
    memory: Literal["shared", "own"] = "shared"
    """`own`: it has a memory of its own instead of the project's."""
    source: str = ""
    """The path of its file."""
    description: str = ""
    """Its purpose, on one line."""
    chunk_s: float | None = None
    """The seconds that a service may be silent within an answer; None: as the settings say."""

    def effects(self) -> Sequence[str]:
        """Return what it changes besides the system prompt, as texts for lists."""
        effects = [f"denies {', '.join(self.deny_tools)}"] if self.deny_tools else []
        if self.allow_tools is not None:
            effects.append(f"allows only {', '.join(self.allow_tools) or 'no tools'}")
        if self.plugins is not None:
            effects.append(f"uses {', '.join(self.plugins) or 'no'} plugins")
        effects += [limit.describe() for limit in self.path_limits]
        effects += ["has its own memory"] if self.memory == "own" else []
        return [*effects, f"uses {self.model}"] if self.model else effects


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """A prompt that could be read."""

    name: str
    """The name of the prompt."""
    source: str
    """The path of the file."""
    read: Callable[[], bytes] = field(repr=False)
    """Returns its bytes, or raises OSError."""
    is_of_project: bool = False
    """Whether it belongs to the project, not to the user."""


def prompt_files(folder: Path) -> list[PromptFile]:
    """Return the prompts in a folder, by name; none are read yet."""
    limit = _MAX_BYTES + 1
    paths = folder.glob("*.md")
    return _named({path: partial(read_regular, path, limit, is_own=True) for path in paths})


def prompts_in_bytes(files: Mapping[str, bytes]) -> list[PromptFile]:
    """Return the prompts among files that were read before, by path."""
    named = _named({Path(path): partial(bytes, content) for path, content in files.items()})
    return [replace(file, is_of_project=True) for file in named]


def _named(files: Mapping[Path, Callable[[], bytes]]) -> list[PromptFile]:
    named = [path for path in sorted(files) if is_prompt_name(path.stem)]
    return [PromptFile(name=path.stem, source=str(path), read=files[path]) for path in named]


def is_prompt_name(name: str) -> bool:
    """Whether it can be typed: letters, digits, `.`, `_` and `-`, and not `none`."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name) is not None and name != "none"


def parse_prompt(file: PromptFile, *, known_tools: Sequence[str] = ()) -> NamedPrompt:
    """Return the prompt in this file.

    Raises ConfigError if it or its head can't be read, or names a tool that is not in `known_tools`
    (lower case) but similar to one of them.
    """
    text = _text(file)
    marked = _MARKED.match(text)
    head = _head(marked["head"], file.source) if marked else {}
    return NamedPrompt(
        name=file.name,
        text=text[marked.end() if marked else 0 :].strip(),
        deny_tools=_tools(head, "deny_tools", file.source, known_tools) or (),
        allow_tools=_tools(head, "allow_tools", file.source, known_tools),
        model=_model(head.get("model"), file.source),
        plugins=_plugins(head, file),
        path_limits=_path_limits(head, file),
        memory=_memory(head.get("memory", "shared"), file.source),
        source=file.source,
        description=" ".join(str(head.get("description") or "").split()),
        chunk_s=_seconds(head.get("chunk_s"), file.source),
    )


class PromptBook:
    """The available prompts, and the one in use. The first file with a name counts.

    `notices` name the others. `on_change` is called with each choice. `known_tools` are all that
    exist, of plugins, too.
    """

    def __init__(self, files: Sequence[PromptFile], *, known_tools: Sequence[str] = ()) -> None:
        self._files: dict[str, PromptFile] = {}
        self._known_tools = sorted(name.lower() for name in known_tools)
        self.notices: list[str] = []
        self.current: NamedPrompt | None = None
        self.on_change: list[Callable[[NamedPrompt | None], None]] = []
        for file in files:
            first = self._files.setdefault(file.name, file)
            if first is not file:
                notice = f"prompt `{file.name}` of {file.source} is not used: {first.source} is."
                self.notices.append(notice)

    @property
    def names(self) -> Sequence[str]:
        return sorted(self._files)

    @property
    def denied_tools(self) -> dict[str, str]:
        """Each tool that the prompt in use denies, with a text that names the prompt."""
        if self.current is None:
            return {}
        allowed = self.current.allow_tools
        others = [] if allowed is None else [t for t in self._known_tools if t not in allowed]
        return dict.fromkeys((*self.current.deny_tools, *others), f"prompt {self.current.name}")

    @property
    def unknown_tools(self) -> str:
        """A notice about tools that the prompt in use names and that don't exist; "" if none."""
        if (prompt := self.current) is None:
            return ""
        named = dict.fromkeys((*prompt.deny_tools, *(prompt.allow_tools or ())))
        names = ", ".join(f"`{name}`" for name in named if name not in self._known_tools)
        if not names:
            return ""
        text = f"The prompt {prompt.name} names tools that don't exist: {names}."
        return f"{text} There are: {', '.join(self._known_tools)}."

    def describe(self, name: str) -> str:
        """Return the description of a prompt for lists, or what is wrong with it."""
        try:
            prompt = self.find(name)
        except ConfigError as error:
            return f"cannot be used: {error.message}"
        return "; ".join(part for part in (prompt.description, *prompt.effects()) if part)

    def find(self, name: str) -> NamedPrompt:
        """Return the prompt. Raises UsageError if there is none, ConfigError if it is invalid."""
        file = self._files.get(name)
        if file is None:
            near = get_close_matches(name, self.names, 3)
            hint = f"There are: {', '.join(self.names)}." if self.names else _NO_PROMPTS
            hint = f"Did you mean {' or '.join(near)}?" if near else hint
            raise UsageError(f"there is no prompt {name!r}.", hint=hint)
        return parse_prompt(file, known_tools=self._known_tools)

    def choose(self, name: str | None) -> NamedPrompt | None:
        """Use this prompt from the next run on, or none. Raises what `find` raises."""
        self.current = self.find(name) if name is not None else None
        for notify in self.on_change:
            notify(self.current)
        return self.current


def open_prompts(
    folder: Path,
    *,
    of_project: Mapping[str, bytes] | None = None,
    known_tools: Sequence[str] = (),
    chosen: str | None = None,
) -> PromptBook:
    """Return the prompts of the user (which win) and of a trusted project, with `chosen` in use.

    Raises UsageError if there is no such prompt, ConfigError if its file is invalid.
    """
    files = [*prompt_files(folder), *prompts_in_bytes(of_project or {})]
    book = PromptBook(files, known_tools=known_tools)
    if chosen is not None:
        book.choose(chosen)
    return book


_EDITING_TOOLS = frozenset({"edit", "write", "apply_patch"})


class LimitsTools(Protocol):
    """The part of a permission gate that a prompt changes."""

    denied_tools: Mapping[str, str]
    """Each denied tool, with a text that says what denies it."""
    denies_edits: str
    """A text that says what denies editing files, also by commands; "" if nothing does."""
    path_limits: Sequence[PathLimit]
    """The only folders that may be read, and changed."""


def follow_prompt(
    book: PromptBook,
    gate: LimitsTools,
    *,
    stored: object = None,
    note: Callable[[str], None] = lambda name: None,
) -> None:
    """Make `gate` deny what the prompt in use denies and limits, now and after each choice.

    `stored` is the name in the session, which a flag overrides. `note` stores each choice.
    """
    if book.current is None and isinstance(stored, str) and stored:
        try:
            book.choose(stored)
        except DirgeError as error:
            book.notices.append(f"The session's prompt is not used: {error.message}")
    elif book.current is not None and book.current.name != stored:
        note(book.current.name)

    def limit(prompt: NamedPrompt | None) -> None:
        gate.denied_tools = book.denied_tools
        is_denied = prompt is not None and not _EDITING_TOOLS.isdisjoint(prompt.deny_tools)
        gate.denies_edits = f"prompt {prompt.name}" if prompt is not None and is_denied else ""
        gate.path_limits = prompt.path_limits if prompt is not None else ()

    limit(book.current)
    book.on_change += [limit, lambda prompt: note(prompt.name if prompt is not None else "")]


def prompt_section(prompt: NamedPrompt | None) -> str:
    """Return the section of the system prompt for the prompt in use."""
    if prompt is None:
        return ""
    denied = ", ".join(prompt.deny_tools)
    note = f"\n\nDo not call these tools, they are denied now: {denied}." if denied else ""
    limits = "; ".join(limit.describe() for limit in prompt.path_limits)
    note += f"\n\nAll else is denied now: a tool {limits}." if limits else ""
    return f"{prompt.text}{note}".strip()


def _text(file: PromptFile) -> str:
    try:
        content = file.read()
    except UnsafeFile as error:
        raise ConfigError(
            f"{file.source} {error.strerror}, so dirge doesn't use it.", hint=f"Run `{error.fix}`."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{file.source} cannot be read: {error.strerror}.", hint="Make it a readable file."
        ) from error
    if len(content) > _MAX_BYTES:
        hint = "A prompt is sent in full. Make it shorter."
        raise ConfigError(f"{file.source} is larger than 256 KiB.", hint=hint)
    return decode(content, file.source)


def _head(text: str, source: str) -> dict[str, Any]:
    yaml: Any = import_module("yaml")
    try:
        # References aren't needed, and a few nested ones can expand to gigabytes.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ConfigError(f"{source}: its front matter contains YAML aliases.", hint=_SHAPE)
        head = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}:{mark.line + 2}" if mark is not None else source
        why = getattr(error, "problem", None) or "this is not YAML"
        raise ConfigError(f"{place}: {why}.", hint=_SHAPE) from None
    head = {} if head is None else head
    if not isinstance(head, dict):
        raise ConfigError(f"{source}: its front matter is not a list of settings.", hint=_SHAPE)
    for key in head:
        if key not in _KEYS:
            meant = nearest(str(key), _KEYS)
            hint = f"Did you mean `{meant}`?" if meant else _SHAPE
            raise ConfigError(f"{source}: no setting `{key}` in a prompt.", hint=hint)
    return head


def _seconds(value: Any, source: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{source}: `chunk_s` must be a number above 0.", hint=_SHAPE)
    return float(value)


def _model(value: Any, source: str) -> str:
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ConfigError(f"{source}: `model` is not a model.", hint=_SHAPE)
    return (value or "").strip()


def _plugins(head: Mapping[str, Any], file: PromptFile) -> tuple[str, ...] | None:
    if "plugins" not in head:
        return None
    if file.is_of_project:
        hint = "Copy it to your own prompts."
        text = f"{file.source}: a project's prompt cannot choose your `plugins`."
        raise ConfigError(text, hint=hint)
    return tuple(dict.fromkeys(_names(head, "plugins", file.source)))


def _path_limits(head: Mapping[str, Any], file: PromptFile) -> tuple[PathLimit, ...]:
    reach = head.get("fs_reach", {})
    if not isinstance(reach, dict) or not set(reach) <= set(_REACH):
        text = f"{file.source}: `fs_reach` has only the lists `read` and `write`."
        raise ConfigError(text, hint=_REACH_SHAPE)
    return tuple(
        PathLimit(
            op=op,
            folders=tuple(_names(reach, key, file.source)),
            by=f"prompt {file.name}",
        )
        for key, op in _REACH.items()
        if key in reach
    )


def _memory(value: Any, source: str) -> Literal["shared", "own"]:
    if value not in ("shared", "own"):
        raise ConfigError(f"{source}: `memory` must be `shared` or `own`.", hint=_SHAPE)
    return cast(Literal["shared", "own"], value)


def _names(head: Mapping[str, Any], key: str, source: str) -> list[str]:
    names = [head[key]] if isinstance(head[key], str) else head[key]
    if not isinstance(names, list) or not all(isinstance(n, str) and n.strip() for n in names):
        raise ConfigError(f"{source}: `{key}` is not a list of {_LISTED[key]}.", hint=_SHAPE)
    return [name.strip() for name in names]


def _tools(
    head: Mapping[str, Any], key: str, source: str, known_tools: Sequence[str]
) -> tuple[str, ...] | None:
    if key not in head:
        return None
    tools = [name.lower() for name in _names(head, key, source)]
    for name in tools:
        near = get_close_matches(name, known_tools, 1, _SLIP) if name not in known_tools else []
        if near:
            raise ConfigError(
                f"{source}: `{key}` names {name!r}.", hint=f"Did you mean `{near[0]}`?"
            )
    return tuple(dict.fromkeys(tools))


_LISTED = {"deny_tools": "tools", "allow_tools": "tools", "plugins": "plugins"} | dict.fromkeys(
    ("read", "write"), "folders"
)
_REACH: Mapping[str, Literal["read", "edit"]] = {"read": "read", "write": "edit"}
_REACH_SHAPE = "Write, for example, `fs_reach: {read: [src, docs], write: [docs]}`."
_SHAPE = (
    "Between lines of `---`: `description: text`, `deny_tools: [edit, bash]`, "
    "`allow_tools: [read, grep]`, `model: alias/id`, `chunk_s: 600`."
)
