"""Arguments as models write them: the schema that models get, and repairs of what they send.

A schema with more than ten leaves or more than two levels is sent as one object of dotted names
(`a.b.c`), because models fill in deeply nested objects badly.

Invalid arguments are repaired where the intent is clear: a value is only converted to the expected
type, or dropped if it is optional. Valid ones are adjusted in two cases only: a link in the place
of a path is unwrapped, and the missing half of a pair gets its default. `x-together` in a schema
names such pairs, and is never sent to a model:
`[{"requires": ["offset", "limit"], "defaults": {"limit": 2000}}]`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from dirge_py.agent_loop.tool_names import plain_name, same_argument
from dirge_py.lib.identity_cache import IdentityCache
from dirge_py.lib.lazy import late_pattern
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
    type_of,
    types_at,
)
from dirge_py.lib.shell_lexer import word_set
from dirge_py.types.tools import ArgumentProblem, InvalidArguments

ArgumentValidator: TypeAlias = Callable[[Any], Mapping[str, Any]]
"""Returns the arguments to use, or raises ValueError (preferably InvalidArguments)."""

TOGETHER = "x-together"

_MOST_LEAVES = 10
_MOST_LEVELS = 2
_LONGEST_NAME = 64
"""The longest property name that services accept; a schema that needs a longer one stays nested."""

_DOT = "-dot-"
_PRIVATE = "x-"
_OPEN_WORDS = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "not")
_NESTED = 12

_REASONS = word_set(
    "explanation reason reasoning rationale justification why thought thoughts thinking intent "
    "purpose goal activeform toolcallid tooluseid callid"
)
"""Properties that explain or number a call: no tool acts on them."""

_LABELS = word_set("description title summary instruction instructions")
"""Properties that label a call for the user. In a record or a list item they are content, so they
count as labels only beside a command or a file change, which need no label."""

_WRAPPERS = word_set("arguments args parameters params input tool_input tool_args kwargs")
_NAMES = word_set("name tool tool_name type")
_INTEGER = late_pattern(r"[+-]?\d{1,300}")
_NUMBER = late_pattern(r"[+-]?\d{1,300}(\.\d+)?([eE][+-]?\d{1,3})?")
_PATH_NAMES = word_set("path file_path filename paths dir")
_PATH_FORMATS = word_set("path absolute_path relative_path")
_LINK = late_pattern(r"\[([^\[\]]+)\]\(https?://([^()\s]+)\)")
_ANY_ITEM = -1
_DEEPEST = 6


def schema_for_model(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema to send (cached): flattened if deep or wide, without `x-` keywords."""
    return _flat_schemas(schema)[0]


def nest_arguments(schema: Mapping[str, Any], arguments: Any) -> Any:
    """Return the arguments with dotted names nested again; unchanged if `schema` was not flattened.

    If a name has both a value and an object, the object wins.
    """
    names = _flat_schemas(schema)[1]
    if names is None or not isinstance(arguments, Mapping):
        return arguments
    nested: dict[str, Any] = {}
    for name, value in arguments.items():
        path = names.get(name) or tuple(step for step in str(name).split(".") if step)
        _put(nested, path, value)
    return nested


@IdentityCache
def _flat_schemas(schema: Any) -> tuple[Mapping[str, Any], Mapping[str, tuple[str, ...]] | None]:
    """Return the schema for models, and the paths of its flat names; None if it isn't flat."""
    public = schema
    if isinstance(schema, Mapping) and any(str(word).startswith(_PRIVATE) for word in schema):
        public = {word: each for word, each in schema.items() if not str(word).startswith(_PRIVATE)}
    leaves = list(_leaves(public, public)) if _is_open(public) else []
    depth = max((len(path) for path, *_ in leaves), default=0)
    if depth < 2 or (len(leaves) <= _MOST_LEAVES and depth <= _MOST_LEVELS):
        return public, None
    names = {".".join(step.replace(".", _DOT) for step in leaf[0]): leaf for leaf in leaves}
    if len(names) < len(leaves) or max(map(len, names)) > _LONGEST_NAME:
        return public, None
    flat = {
        **public,
        "properties": {name: schema for name, (_, schema, _) in names.items()},
        "required": [name for name, (_, _, is_required) in names.items() if is_required],
    }
    if '"$ref"' not in json.dumps(flat["properties"]):
        flat.pop("$defs", None)
        flat.pop("definitions", None)
    # A model may also send nested arguments: then a dot in a top-level name is only a dot.
    own = {name: (name,) for name in public["properties"]}
    return flat, {**own, **{name: path for name, (path, *_) in names.items()}}


def _leaves(
    schema: Schema, root: Schema, path: tuple[str, ...] = (), *, is_required: bool = True
) -> Iterator[tuple[tuple[str, ...], Schema, bool]]:
    """Yield path, schema and need of every place that is no object with named properties."""
    listed = schema.get("required")
    required = listed if isinstance(listed, list | tuple) else ()
    for name, each in schema["properties"].items():
        inner, here = resolved(each, root), (*path, name)
        needed = is_required and name in required
        if _is_open(inner) and len(here) < _NESTED:
            yield from _leaves(inner, root, here, is_required=needed)
        else:
            yield here, each, needed


def _is_open(schema: Any) -> bool:
    """Whether a schema is an object with named properties."""
    return (
        isinstance(schema, Mapping)
        and isinstance(schema.get("properties"), Mapping)
        and bool(schema["properties"])
        and schema.get("type", "object") == "object"
        and not isinstance(schema.get("additionalProperties"), Mapping)
        and not any(word in schema for word in _OPEN_WORDS)
    )


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if not path:
        return
    # Copy on the way down: the model's original arguments are part of history and stay unchanged.
    *around, name = (*path, "") if isinstance(value, Mapping) else path
    for step in around:
        if not isinstance(target.get(step), dict):
            target[step] = {}
        target = target[step]
    if isinstance(value, Mapping):
        for member, inner in value.items():
            _put(target, (member,), inner)
    elif not isinstance(target.get(name), dict):
        target[name] = value


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownProperty:
    """A property that the tool does not define."""

    path: Path
    """Where the property is in the arguments."""
    value: Any
    """The value that the model gave it."""
    known: tuple[str, ...]
    """The properties that the schema defines at that place."""

    @property
    def is_reason(self) -> bool:
        """Whether the property is empty, or only explains why the call is made."""
        return self.value is None or self._is_text_in(_REASONS)

    @property
    def is_label(self) -> bool:
        """Whether the property may be only a label of the whole call."""
        return len(self.path) == 1 and self._is_text_in(_LABELS)

    def _is_text_in(self, names: frozenset[str]) -> bool:
        return isinstance(self.value, str) and plain_name(str(self.path[-1])) in names


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedArguments:
    """Valid arguments, and the repairs that produced them."""

    arguments: Mapping[str, Any]
    """The arguments to use."""
    kinds: tuple[str, ...] = ()
    """The kinds of repairs that were made."""
    notes: tuple[str, ...] = ()
    """Notes about the repairs for the model."""
    dropped: tuple[UnknownProperty, ...] = ()
    """The properties that were dropped because the tool does not define them."""


def repair_arguments(
    tool: str,
    schema: Schema,
    arguments: Any,
    validate: ArgumentValidator,
    *,
    reshape: Callable[[Any], Any] = lambda arguments: arguments,
    keep_nulls: bool = False,
) -> RepairedArguments:
    """Return arguments that `validate` accepts. Raises ValueError if they can't be repaired.

    Valid arguments are only adjusted. Others are repaired in one pass and validated once more.
    `reshape` is applied again to arguments unwrapped from a wrapper.
    """
    try:
        valid = validate(arguments)
    except ValueError as error:
        problems = error.problems if isinstance(error, InvalidArguments) else ()
        repairer = _Repairer(tool, schema, problems, keep_nulls=keep_nulls)
        arguments = repairer.repaired(arguments, reshape)
        if not repairer.kinds:
            raise
        valid = validate(arguments)
    else:
        repairer = _Repairer(tool, schema, ())
    kinds, notes = dict.fromkeys(repairer.kinds), repairer.notes
    adjusted = adjust_arguments(tool, schema, arguments)
    if adjusted is not None:
        with suppress(ValueError):  # without the adjustment they are valid
            valid = validate(adjusted.arguments)
            kinds |= dict.fromkeys(adjusted.kinds)
            notes = [*notes, *adjusted.notes]
    return RepairedArguments(
        arguments=valid, kinds=tuple(kinds), notes=tuple(notes), dropped=tuple(repairer.dropped)
    )


class _Repairer:
    """One repair pass over invalid arguments; `kinds` are the repairs, one entry for each."""

    def __init__(
        self,
        tool: str,
        root: Schema,
        problems: tuple[ArgumentProblem, ...],
        *,
        keep_nulls: bool = False,
    ) -> None:
        self.kinds: list[str] = []
        self.notes: list[str] = []
        self.dropped: list[UnknownProperty] = []
        self._tool = tool
        self._root = root
        self._wrong = {problem.path for problem in problems}
        self._around = {path[:size] for path in self._wrong for size in range(len(path) + 1)}
        self._extra = {problem.path for problem in problems if problem.kind == "extra"}
        self._is_all_suspect = not problems
        self._keep_nulls = keep_nulls

    def repaired(self, arguments: Any, reshape: Callable[[Any], Any]) -> Any:
        inner = unwrap_arguments(self._tool, self._root, arguments)
        if inner is not None:
            self.kinds.append("unwrapped_arguments")
            # The problems are those of the wrapper: nothing is known of its content yet.
            self._is_all_suspect = True
            arguments = reshape(inner)
        if not isinstance(arguments, Mapping):
            return arguments
        return self._object(arguments, self._root, ())

    def _is_wrong(self, path: Path) -> bool:
        return self._is_all_suspect or path in self._wrong

    def _holds_wrong(self, path: Path) -> bool:
        """Whether there is anything to repair at or below `path`."""
        return self._is_all_suspect or path in self._around

    def _value(self, value: Any, schema: Any, path: Path) -> Any:
        if not self._holds_wrong(path):
            return value
        if not self._is_wrong(path):
            return self._inside(value, schema, path)
        changed = convert_value(value, schema, self._root)
        if changed is not None:
            kind, value = changed
            self.kinds.append(kind)
        else:
            plain = resolved(schema, self._root)
            if not (plain.get("anyOf") or plain.get("oneOf")):
                return self._inside(value, schema, path)
        # Its content was not checked yet, so any of it may be wrong.
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
        members = self._renamed(value, properties, path)
        for name in self._nulls(members, properties, schema, path):
            del members[name]
        dropped = self._extras(members, properties, schema, path)
        return {
            name: self._value(each, child(schema, name, self._root), (*path, name))
            for name, each in members.items()
            if name not in dropped
        }

    def _renamed(
        self, value: Mapping[str, Any], properties: Mapping[str, Any], path: Path
    ) -> dict[str, Any]:
        free = [name for name in properties if name not in value]
        aliases: dict[str, list[str]] = {}
        for name in value:
            if name not in properties:
                same = [each for each in free if same_argument(name) == same_argument(each)]
                if len(same) == 1:
                    aliases.setdefault(same[0], []).append(name)
        names = {
            written[0]: property_name
            for property_name, written in aliases.items()
            if len(written) == 1
            and (self._is_wrong((*path, written[0])) or self._is_wrong((*path, property_name)))
        }
        if names:
            self.kinds.append("key_alias")
        return {names.get(name, name): each for name, each in value.items()}

    def _nulls(
        self, value: dict[str, Any], properties: Mapping[str, Any], schema: Any, path: Path
    ) -> list[str]:
        required = required_in(schema, self._root)
        nulls = [
            name
            for name, each in value.items()
            if each is None
            and not self._keep_nulls
            and name in properties
            and name not in required
            and self._is_wrong((*path, name))
            and "null" not in types_at(properties[name], self._root)
        ]
        if nulls:
            self.kinds.append("null_stripped")
        return nulls

    def _extras(
        self, value: dict[str, Any], properties: Mapping[str, Any], schema: Any, path: Path
    ) -> list[str | int]:
        if not properties:
            return []
        free = [name for name in properties if name not in value]
        unknown = [
            UnknownProperty(path=(*path, name), value=each, known=tuple(properties))
            for name, each in value.items()
            if name not in properties
        ]
        extras = [extra for extra in unknown if self._may_go(extra, schema, free)]
        if extras:
            self.kinds.append("extra_stripped")
            ignored = ", ".join(f"`{extra.path[-1]}`" for extra in extras)
            known = ", ".join(f"`{name}`" for name in properties)
            self.notes.append(
                f"`{self._tool}`: ignored {ignored}, which it does not have. It has: {known}."
            )
            self.dropped += extras
        return [extra.path[-1] for extra in extras]

    def _may_go(self, extra: UnknownProperty, schema: Any, free: list[str]) -> bool:
        if not self._is_wrong(extra.path):
            return False
        if not is_closed(schema, self._root) and extra.path not in self._extra:
            return False
        if extra.is_reason or extra.is_label:
            return True
        # Probably a misspelt property of the tool: dropping it would drop what the model meant.
        return nearest(str(extra.path[-1]), free) is None


def convert_value(value: Any, schema: Any, root: Schema) -> tuple[str, Any] | None:
    """Return the kind of repair and the value in the type of `schema`; None without repair."""
    wanted = types_at(schema, root)
    if type_of(value) in wanted:
        return None
    if isinstance(value, str):
        return _from_text(value, wanted)
    if isinstance(value, Mapping) and "array" in wanted:
        if not value:
            return "object_to_array", []
        if "object" in types_at(child(schema, 0, root), root):
            return "bare_object_to_array", [value]
    return None


def unwrap_arguments(tool: str, schema: Schema, arguments: Any) -> Any:
    """Return the arguments inside an extra wrapper; None if they were not wrapped.

    A wrapper is `{"arguments": {…}}`, the same with the tool's name, a list around one object, or
    JSON in a string.
    """
    if isinstance(arguments, list) and len(arguments) == 1:
        arguments = arguments[0]
        return arguments if isinstance(arguments, Mapping) else None
    if isinstance(arguments, str):
        return _parsed(arguments, "{", dict)
    if not isinstance(arguments, Mapping):
        return None
    known = properties_of(schema, schema)
    inner = [name for name in arguments if name in _WRAPPERS and name not in known]
    if len(inner) != 1:
        return None
    beside = [name for name in arguments if name != inner[0]]
    if any(name not in _NAMES or arguments[name] not in (tool, "function") for name in beside):
        return None
    content = arguments[inner[0]]
    if isinstance(content, str):
        return _parsed(content, "{", dict)
    return content if isinstance(content, Mapping) else None


def _from_text(text: str, wanted: frozenset[str]) -> tuple[str, Any] | None:
    for name, first, kind in (("array", "[", list), ("object", "{", dict)):
        value = _parsed(text, first, kind) if name in wanted else None
        if value is not None:
            return f"json_string_to_{name}", value
    word = text.strip()
    if "boolean" in wanted and word.lower() in ("true", "false"):
        return "stringified_scalar", word.lower() == "true"
    if "integer" in wanted and _INTEGER.fullmatch(word):
        return "stringified_scalar", int(word)
    if "number" in wanted and _NUMBER.fullmatch(word):
        return "stringified_scalar", float(word)
    # Tried last: a list written as text is a list, not a list with one text.
    return ("bare_string_to_array", [text]) if "array" in wanted else None


def read_json(text: str) -> Any:
    """Return the value of a JSON text, also of one with slips; None if it cannot be read."""
    from dirge_py.lib.lenient_json import read_value

    try:
        return json.loads(text, strict=False)
    except RecursionError:
        return None
    except ValueError:
        return read_value(text)


def _parsed(text: str, first: str, kind: type) -> Any:
    value = read_json(text) if text.lstrip().startswith(first) else None
    return value if isinstance(value, kind) else None


def adjust_arguments(
    tool: str, schema: Schema, arguments: Mapping[str, Any]
) -> RepairedArguments | None:
    """Return the arguments with links unwrapped and pairs completed; None if unchanged.

    Only a link whose text is its own target is unwrapped: `[a/b.py](http://a/b.py)`.
    """
    paths, together = _adjustments(schema)
    changed: Any = arguments
    for path in paths:
        changed = _unlinked(changed, path)
    kinds = () if changed is arguments else ("md_link_unwrapped",)
    notes = []
    for entry in together:
        names, defaults = entry["requires"], entry["defaults"]
        given = [name for name in names if changed.get(name) is not None]
        missing = {
            name: defaults[name]
            for name in names
            if given and name not in given and defaults.get(name) is not None
        }
        if missing:
            changed = {**changed, **missing}
            listed = ", ".join(f"`{name}`" for name in names if name not in missing)
            values = " and ".join(f"`{name}` as {value}" for name, value in missing.items())
            others = " and ".join(f"`{name}`" for name in missing)
            notes.append(
                f"`{tool}`: only {listed} was given, so it took {values}. "
                f"Give {others} to choose another."
            )
    if changed is arguments:
        return None
    return RepairedArguments(arguments=changed, kinds=kinds, notes=tuple(notes))


@IdentityCache
def _adjustments(schema: Any) -> tuple[list[Path], list[Mapping[str, Any]]]:
    """Return where a schema asks for paths, and which properties belong together."""
    root = resolved(schema, schema if isinstance(schema, Mapping) else {})
    together = root.get(TOGETHER)
    entries = [
        entry
        for entry in (together if isinstance(together, list) else [])
        if isinstance(entry, Mapping)
        and isinstance(entry.get("requires"), list)
        and all(isinstance(name, str) for name in entry["requires"])
        and isinstance(entry.get("defaults"), Mapping)
    ]
    return list(_paths_in(root, root, ())), entries


def _paths_in(schema: Any, root: Schema, at: Path, name: str = "") -> Iterator[Path]:
    if len(at) > _DEEPEST:
        return
    schema = resolved(schema, root)
    types = types_at(schema, root)
    if "string" in types and (name in _PATH_NAMES or str(schema.get("format")) in _PATH_FORMATS):
        yield at
    if "array" in types and "items" in schema:
        yield from _paths_in(child(schema, 0, root), root, (*at, _ANY_ITEM), name)
    for each, inner in properties_of(schema, root).items():
        yield from _paths_in(inner, root, (*at, each), each)


def _unlinked(value: Any, path: Path) -> Any:
    """Return `value` with the link at `path` unwrapped; the same object if there is none."""
    if not path:
        link = _LINK.fullmatch(value) if isinstance(value, str) else None
        return link[1] if link and f"/{link[2]}".endswith(f"/{link[1]}") else value
    step, rest = path[0], path[1:]
    if step == _ANY_ITEM:
        if not isinstance(value, list):
            return value
        items = [_unlinked(each, rest) for each in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if not isinstance(value, Mapping) or step not in value:
        return value
    inner = _unlinked(value[step], rest)
    return value if inner is value[step] else {**value, step: inner}
