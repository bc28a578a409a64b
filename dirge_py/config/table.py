"""Tables of settings: records that check what a file says against their annotations.

A setting is a field with an annotation, a default and a description:

    class LoopTable(Table):
        max_turns: Positive = setting(100, "Turns after which a run ends.")

Annotations may be bool, int, float, str, Any, Literal, other tables, lists, dicts with text as
keys, `X | None`, one type or a list of it, and `Annotated` with the marks `Range`, `Pattern`,
`Check` and `Convert`. A value must have the type itself: `max_turns = "5"` is a mistake. Only a
whole number is a float, too.

Every start checks its settings, so this is made of the standard library: the import of pydantic
and its models of these tables would take longer than all the rest of loading them.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field
from functools import partial
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from dirge_py.lib.lean_dataclass import dataclass

Path = tuple[str | int, ...]
"""The place of a value: names of tables and keys, and indexes in arrays of tables."""


def setting(default: Any, description: str = "", **limits: float) -> Any:
    """A setting with a default, which has the `limits` of `Range`.

    A class stands for a new, empty instance; a table describes itself.
    """
    if isinstance(default, list):
        default = partial(list, default)
    made: Any = {"default_factory": default} if callable(default) else {"default": default}
    return field(**made, metadata=_metadata(description, limits))


def required(*, description: str) -> Any:
    """A setting without a default."""
    return field(metadata=_metadata(description, {}))


def other_settings() -> Any:
    """The field that holds the settings with other names; without one they are mistakes."""
    return field(default_factory=dict, metadata={"others": True})


def _metadata(description: str, limits: Mapping[str, float]) -> dict[str, Any]:
    return {"description": description, "mark": Range(**limits) if limits else None}


# Ordinary classes, because `typing` compares marks: dataclasses would compile their comparisons.
class Range:
    """Limits of a number."""

    def __init__(
        self, *, gt: float | None = None, ge: float | None = None, le: float | None = None
    ) -> None:
        self.gt, self.ge, self.le = gt, ge, le

    def problem(self, value: float) -> str | None:
        """What the number must be; None if it is so."""
        if self.gt is not None and not value > self.gt:
            return f"must be greater than {self.gt}"
        if self.ge is not None and not value >= self.ge:
            return f"must be greater than or equal to {self.ge}"
        if self.le is not None and not value <= self.le:
            return f"must be less than or equal to {self.le}"
        return None


class Pattern:
    """A regular expression that the whole text must match; `words` say what it must be."""

    def __init__(self, pattern: str, words: str, hint: str = "") -> None:
        self.pattern, self.words, self.hint = pattern, words, hint


class Check:
    """A function that returns why a value of the right type is invalid, or None."""

    def __init__(self, reason: Callable[[Any], str | None]) -> None:
        self.reason = reason


class Convert:
    """A function of the value before its type is checked."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A mistake in settings, without the value: that may be a key."""

    path: Path
    """The setting, or the table that would have it."""
    text: str = ""
    """What follows the setting's name, with a space or a colon."""
    hint: str = ""
    kind: Literal["unknown", "missing", "invalid"] = "invalid"


class InvalidSettings(ValueError):
    """Settings that the tables don't allow."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(f"{len(problems)} invalid settings")
        self.problems = problems


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(required,))
class Table:
    """A table of the file, a frozen dataclass with keyword parameters.

    Its own methods instead of those that `dataclasses` would compile for each of thirty tables.
    `read_table` checks values; the constructor and `dataclasses.replace` take them as they are.
    """

    settings_of_class: ClassVar[Mapping[str, dataclasses.Field[Any]]] = {}
    """The settings by name, without other fields."""
    given: frozenset[str]
    """The names of the settings that the constructor got; others have their defaults."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
        cls.settings_of_class = {
            each.name: each for each in _fields(cls) if "description" in each.metadata
        }

    def __init__(self, **values: Any) -> None:
        state = self.__dict__
        state["given"] = frozenset(values)
        for each in _fields(self):
            if each.name in values:
                state[each.name] = values.pop(each.name)
            elif each.default_factory is not MISSING:
                state[each.name] = each.default_factory()
            elif each.default is not MISSING:
                state[each.name] = each.default
            else:
                raise TypeError(f"{type(self).__name__} needs {each.name!r}")
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return {**vars(self), "given": None} == {**vars(other), "given": None}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (each.name for each in _fields(self) if each.repr)
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Each (setting, reason) why valid settings don't fit together; "" is the table itself."""
        return iter(())


def _fields(table: Table | type[Table]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(table)  # type: ignore[arg-type]


AnyTable = TypeVar("AnyTable", bound=Table)


def read_table(table: type[AnyTable], values: object) -> AnyTable:
    """The table with these values, as TOML has them. Raises InvalidSettings with all problems."""
    reader = _Reader()
    read: AnyTable = reader.table(table, values, ())
    if reader.problems:
        raise InvalidSettings(reader.problems)
    return read


def values_of(table: Table, *, only_given: bool = False) -> dict[str, Any]:
    """The settings as plain values, those of tables in it, too; without settings that are None."""
    values: dict[str, Any] = {}
    for each in _fields(table):
        value = getattr(table, each.name)
        if value is None or (only_given and each.name not in table.given):
            continue
        if "description" in each.metadata:
            values[each.name] = _plain(value, only_given)
        elif "others" in each.metadata:
            values.update(value)
    return values


def _plain(value: Any, only_given: bool) -> Any:
    if isinstance(value, Table):
        return values_of(value, only_given=only_given)
    if isinstance(value, dict):
        return {key: _plain(each, only_given) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, only_given) for each in value]
    return value


def _is_required(each: dataclasses.Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


_WORDS: Mapping[Any, str] = {
    bool: "must be true or false",
    int: "must be a whole number",
    float: "must be a number",
    str: "must be text",
}


class _Reader:
    """Reads values by annotations, and notes the problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def table(self, table: type[Table], values: object, path: Path) -> Any:
        if isinstance(values, table):
            return values
        if not isinstance(values, Mapping):
            return self._refuse(path, " must be a table")
        before = len(self.problems)
        settings = table.settings_of_class
        read: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, value in values.items():
            if name not in settings:
                others[name] = value
                continue
            each = settings[name]
            read[name] = self._marked(each.type, [each.metadata["mark"]], value, (*path, name))
        for each in _fields(table):
            if "others" in each.metadata and others:
                read[each.name], others = others, {}
            elif _is_required(each) and each.name not in values:
                self.problems.append(Problem(path=(*path, each.name), kind="missing"))
        self.problems += [Problem(path=(*path, name), kind="unknown") for name in others]
        if len(self.problems) > before:
            return None
        made = table(**read)
        for name, reason in made.contradictions():
            self._refuse((*path, name) if name else path, f": {reason}")
        return made

    def value(self, kind: Any, value: Any, path: Path) -> Any:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._marked(arguments[0], arguments[1:], value, path)
        if origin in (Union, UnionType):
            return self._one_of(arguments, value, path)
        if origin is Literal:
            if isinstance(value, str) and value in arguments:
                return value
            *most, last = map(repr, arguments)
            choices = f"{', '.join(most)} or {last}" if most else last
            return self._refuse(path, f" must be {choices}")
        if origin is list:
            if not isinstance(value, list):
                return self._refuse(path, " must be a list")
            return [self.value(arguments[0], each, (*path, at)) for at, each in enumerate(value)]
        if origin is dict:
            if not isinstance(value, dict):
                return self._refuse(path, " must be a table")
            key_kind, value_kind = arguments
            return {
                self.value(key_kind, key, (*path, key)): self.value(value_kind, each, (*path, key))
                for key, each in value.items()
            }
        return self._scalar_or_table(kind, value, path)

    def _scalar_or_table(self, kind: Any, value: Any, path: Path) -> Any:
        if kind is Any:
            return value
        if kind not in _WORDS:
            return self.table(kind, value, path)
        if kind is float and type(value) is int:
            try:
                return float(value)
            except OverflowError:
                return self._refuse(path, " must be a smaller number")
        # The type itself: a bool is an int to Python.
        return value if type(value) is kind else self._refuse(path, f" {_WORDS[kind]}")

    def _one_of(self, kinds: Sequence[Any], value: Any, path: Path) -> Any:
        """Read one of several types: None, a type and a list are told apart by the value."""
        if value is None and NoneType in kinds:
            return None
        of_list = [kind for kind in kinds if get_origin(kind) is list]
        others = [kind for kind in kinds if kind is not NoneType and kind not in of_list]
        fitting = of_list if of_list and (isinstance(value, list) or not others) else others
        return self.value(fitting[0], value, path)

    def _marked(self, kind: Any, marks: Sequence[Any], value: Any, path: Path) -> Any:
        for mark in marks:
            if isinstance(mark, Convert):
                value = mark.function(value)
        before = len(self.problems)
        read = self.value(kind, value, path)
        if len(self.problems) > before or read is None:
            return read
        for mark in marks:
            if isinstance(mark, Range) and (words := mark.problem(read)):
                self._refuse(path, f" {words}")
            elif isinstance(mark, Pattern) and not re.fullmatch(mark.pattern, read):
                self._refuse(path, f" {mark.words}", mark.hint)
            elif isinstance(mark, Check) and (reason := mark.reason(read)):
                self._refuse(path, f": {reason}")
        return read

    def _refuse(self, path: Path, text: str, hint: str = "") -> None:
        self.problems.append(Problem(path=path, text=text, hint=hint))
