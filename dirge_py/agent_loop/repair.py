"""Arguments mended where it is plain what was meant; what fits as it was written is left alone.

The schema says what a place wants, the problems that validation found say where to look. Nothing is
guessed: a value is only put into the shape that is asked for, or left out where it may be missing.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dirge_py.agent_loop.reshape import converted, unwrapped
from dirge_py.agent_loop.touch_up import touched_up
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.lib.schemas import (
    Path,
    Schema,
    child,
    is_closed,
    properties_of,
    required_in,
    resolved,
    types_at,
)
from dirge_py.types.tools import ArgumentProblem, InvalidArguments

Validate: TypeAlias = Callable[[Any], Mapping[str, Any]]
"""The arguments to use, or a ValueError (better: InvalidArguments)."""

_ALIASES = (
    {"path", "file_path", "file", "filename", "file_name", "dir", "directory", "folder"},
    {"command", "cmd", "command_line", "shell_command"},
    {"content", "contents", "text", "file_text"},
    {"old_text", "old_string", "old_str"},
    {"new_text", "new_string", "new_str"},
    {"pattern", "query", "regex", "search"},
    {"url", "uri", "link", "href"},
)
"""Names that mean the same to models. Compared without case and underscores."""

_REASONS = frozenset(
    {"explanation", "reason", "reasoning", "rationale", "justification", "why", "thought"}
    | {"thoughts", "thinking", "intent", "purpose", "goal", "activeform"}
    | {"toolcallid", "tooluseid", "callid"}
)
"""Properties that say why a call is made, or number it: no tool could act on them."""

_LABELS = frozenset({"description", "title", "summary", "instruction", "instructions"})
"""Properties that name a call for whoever watches. A record or a list item has them as content, so
they count as labels only beside a command or a change of files, which says all of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A property that the tool does not have."""

    path: Path
    """Where it stood."""
    value: Any
    """What it said."""
    known: tuple[str, ...]
    """The properties that there are in that place."""

    @property
    def is_reason(self) -> bool:
        """Whether it says nothing, or only why the call is made."""
        return self.value is None or self._is_text_in(_REASONS)

    @property
    def is_label(self) -> bool:
        """Whether it may only name the whole call."""
        return len(self.path) == 1 and self._is_text_in(_LABELS)

    def _is_text_in(self, names: frozenset[str]) -> bool:
        return isinstance(self.value, str) and _plain(str(self.path[-1])) in names


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """Arguments that fit, what was done to them, and what the model should know of it.

    `dropped` are the properties that were left out because the tool does not have them.
    """

    arguments: Mapping[str, Any]
    kinds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()


def repair(
    tool: str,
    schema: Schema,
    arguments: Any,
    validate: Validate,
    *,
    reshape: Callable[[Any], Any] = lambda arguments: arguments,
    keep_nulls: bool = False,
) -> Repaired:
    """Arguments that `validate` accepts.

    Accepted arguments are only touched up: see `touch_up`. Others are mended in one pass and
    validated once more. `reshape` is applied again to what was found inside a wrapper.

    Raises:
        ValueError: they do not fit, and could not be mended.
    """
    try:
        valid = validate(arguments)
    except ValueError as error:
        problems = error.problems if isinstance(error, InvalidArguments) else ()
        mender = _Mender(tool, schema, problems, keep_nulls=keep_nulls)
        mended = mender.mended(arguments, reshape)
        if not mender.kinds:
            raise
        valid = validate(mended)
    else:
        mended, mender = arguments, _Mender(tool, schema, ())
    kinds, notes = list(mender.kinds), list(mender.notes)
    touched = touched_up(tool, schema, mended)
    if touched is not None:
        try:
            valid = validate(touched.arguments)
        except ValueError:
            pass  # without it they were valid
        else:
            kinds += touched.kinds
            notes += touched.notes
    return Repaired(
        arguments=valid, kinds=tuple(kinds), notes=tuple(notes), dropped=tuple(mender.dropped)
    )


class _Mender:
    """One pass over arguments that do not fit. `kinds` is what it did, each named once."""

    def __init__(
        self,
        tool: str,
        root: Schema,
        problems: tuple[ArgumentProblem, ...],
        *,
        keep_nulls: bool = False,
    ) -> None:
        self.kinds: dict[str, None] = {}
        self.notes: list[str] = []
        self.dropped: list[Dropped] = []
        self._tool = tool
        self._root = root
        self._wrong = {problem.path for problem in problems}
        self._extra = {problem.path for problem in problems if problem.kind == "extra"}
        self._is_all_suspect = not problems
        self._keep_nulls = keep_nulls

    def mended(self, arguments: Any, reshape: Callable[[Any], Any]) -> Any:
        inner = unwrapped(self._tool, self._root, arguments)
        if inner is not None:
            self._count("unwrapped_arguments")
            # What was found wrong lies in the wrapper: nothing is known of its content.
            self._is_all_suspect = True
            arguments = reshape(inner)
        if not isinstance(arguments, Mapping):
            return arguments
        return self._object(arguments, self._root, ())

    def _count(self, kind: str) -> None:
        self.kinds[kind] = None

    def _is_wrong(self, path: Path) -> bool:
        return self._is_all_suspect or path in self._wrong

    def _holds_wrong(self, path: Path) -> bool:
        """Whether there is anything to mend at or below `path`."""
        return self._is_all_suspect or any(each[: len(path)] == path for each in self._wrong)

    def _value(self, value: Any, schema: Any, path: Path) -> Any:
        if not self._holds_wrong(path):
            return value
        if not self._is_wrong(path):
            return self._inside(value, schema, path)
        changed = converted(value, schema, self._root)
        if changed is not None:
            self._count(changed.kind)
            value = changed.value
        elif not _is_combined(schema, self._root):
            return self._inside(value, schema, path)
        # Nobody looked inside yet, so everything there may be wrong.
        before, self._is_all_suspect = self._is_all_suspect, True
        value = self._inside(value, schema, path)
        self._is_all_suspect = before
        return value

    def _inside(self, value: Any, schema: Any, path: Path) -> Any:
        if isinstance(value, Mapping):
            return self._object(value, schema, path)
        if isinstance(value, list):
            return [
                self._value(each, child(schema, place, self._root), (*path, place))
                for place, each in enumerate(value)
            ]
        return value

    def _object(self, value: Mapping[str, Any], schema: Any, path: Path) -> dict[str, Any]:
        properties = properties_of(schema, self._root)
        kept = self._renamed(value, properties, path)
        kept = self._without_nulls(kept, properties, schema, path)
        kept = self._without_extras(kept, properties, schema, path)
        return {
            name: self._value(each, child(schema, name, self._root), (*path, name))
            for name, each in kept.items()
        }

    def _renamed(
        self, value: Mapping[str, Any], properties: Mapping[str, Any], path: Path
    ) -> dict[str, Any]:
        free = [name for name in properties if name not in value]
        meant: dict[str, list[str]] = {}
        for name in value:
            if name not in properties:
                same = [each for each in free if _mean_the_same(name, each)]
                if len(same) == 1:
                    meant.setdefault(same[0], []).append(name)
        names = {
            given[0]: wanted
            for wanted, given in meant.items()
            if len(given) == 1
            and (self._is_wrong((*path, given[0])) or self._is_wrong((*path, wanted)))
        }
        if names:
            self._count("key_alias")
        return {names.get(name, name): each for name, each in value.items()}

    def _without_nulls(
        self, value: dict[str, Any], properties: Mapping[str, Any], schema: Any, path: Path
    ) -> dict[str, Any]:
        if self._keep_nulls:
            return value
        required = required_in(schema, self._root)
        nulls = {
            name
            for name, each in value.items()
            if each is None
            and name in properties
            and name not in required
            and self._is_wrong((*path, name))
            and "null" not in types_at(properties[name], self._root)
        }
        if nulls:
            self._count("null_stripped")
        return {name: each for name, each in value.items() if name not in nulls}

    def _without_extras(
        self, value: dict[str, Any], properties: Mapping[str, Any], schema: Any, path: Path
    ) -> dict[str, Any]:
        if not properties:
            return value
        free = [name for name in properties if name not in value]
        found = [
            Dropped(path=(*path, name), value=each, known=tuple(properties))
            for name, each in value.items()
            if name not in properties
        ]
        extras = [one for one in found if self._may_go(one, schema, free)]
        if extras:
            self._count("extra_stripped")
            names = [str(one.path[-1]) for one in extras]
            self.notes.append(_ignored(self._tool, names, properties))
            self.dropped += extras
        gone = {one.path[-1] for one in extras}
        return {name: each for name, each in value.items() if name not in gone}

    def _may_go(self, extra: Dropped, schema: Any, free: list[str]) -> bool:
        if not self._is_wrong(extra.path):
            return False
        if not is_closed(schema, self._root) and extra.path not in self._extra:
            return False
        if extra.is_reason or extra.is_label:
            return True
        # A slip of a name that the tool has: dropping it would drop what was meant.
        return nearest(str(extra.path[-1]), free) is None


def _is_combined(schema: Any, root: Schema) -> bool:
    schema = resolved(schema, root)
    return bool(schema.get("anyOf") or schema.get("oneOf"))


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _mean_the_same(given: str, wanted: str) -> bool:
    if _plain(given) == _plain(wanted):
        return True
    return any(
        {_plain(given), _plain(wanted)} <= {_plain(name) for name in group} for group in _ALIASES
    )


def _ignored(tool: str, names: list[str], properties: Mapping[str, Any]) -> str:
    ignored = ", ".join(f"`{name}`" for name in names)
    known = ", ".join(f"`{name}`" for name in properties)
    return f"`{tool}`: ignored {ignored}, which it does not have. It has: {known}."
