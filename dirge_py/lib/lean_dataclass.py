"""`@dataclass(slots=True)`, cheap to define: what it adds is created on first use.

The standard decorator compiles six methods for every class, a third of a millisecond each. A
headless run defines two hundred classes, creates instances of seventy, and compares or prints none.
Here a class is only given its slots. `__init__` is compiled with the first instance; the `Field`
objects, `__repr__`, `__eq__` and `__hash__` are the standard library's, created on first use. In
every other respect the result is a standard dataclass: `fields`, `replace`, `match`, `copy` and
`pickle` work on it, and standard ones may inherit from it.

For classes that a start defines; type checkers see the standard decorator.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *, slots: bool, frozen: bool = False, kw_only: bool = False, eq: bool = True
    ) -> Callable[[type], type]:
        """Return the class with fields and slots; no other options."""
        if not slots:
            raise TypeError("These have slots; others are `dataclasses.dataclass`.")

        return lambda cls: _defined(cls, _Options(frozen, kw_only, eq))


class _Options(NamedTuple):
    """The options of one class."""

    frozen: bool
    kw_only: bool
    eq: bool

    def standard(self, cls: type) -> Any:
        """Return the class as the standard decorator makes it, without slots."""
        return dataclasses.dataclass(frozen=self.frozen, kw_only=self.kw_only, eq=self.eq)(cls)


_UNSET = object()
_STANDARD: Any = dataclasses
_OF_EVERY_CLASS = ("__dict__", "__weakref__")


class _Params:
    """What `dataclasses` asks of a class before another one may inherit from it."""

    init = repr = eq = match_args = slots = True
    frozen = order = unsafe_hash = kw_only = weakref_slot = False


class _FrozenParams(_Params):
    """The same of a class whose instances are frozen."""

    frozen = True


class _FieldsAtFirstUse:
    """`__dataclass_fields__` of one class, replaced by the standard value when it is read."""

    def __init__(self, cls: type, bases: Sequence[type], body: Mapping[str, Any], kw_only: bool):
        self._cls = cls
        self._bases = bases
        self._body = body
        self._kw_only = kw_only

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        cls: Any = self._cls
        fields: dict[str, Any] = {}
        for base in self._bases:
            fields |= base.__dataclass_fields__  # type: ignore[attr-defined]
        for name, hint in self._body.get("__annotations__", {}).items():
            fields[name] = self._field(name, hint)
        cls.__dataclass_fields__ = fields
        return fields

    def _field(self, name: str, hint: Any) -> Any:
        # What the standard decorator does; with it, each class would take ten times as long.
        value = self._body.get(name, dataclasses.MISSING)
        made: Any = value
        if not isinstance(value, dataclasses.Field):
            made = dataclasses.field(default=value)
        made.name, made.type = name, hint
        is_class_variable = _is_class_variable(hint)
        made._field_type = _STANDARD._FIELD_CLASSVAR if is_class_variable else _STANDARD._FIELD
        if made.kw_only is dataclasses.MISSING:
            made.kw_only = self._kw_only
        return made


def _defined(cls: type, options: _Options) -> type:
    bases: list[Any] = [base for base in cls.__mro__[:0:-1] if "__dataclass_fields__" in vars(base)]
    if any(base.__dataclass_params__ not in (_Params, _FrozenParams) for base in bases):
        raise TypeError(f"{cls.__name__} inherits from a standard dataclass.")
    if any(base.__dataclass_params__.frozen != options.frozen for base in bases):
        raise TypeError(f"{cls.__name__} and its base must both be frozen, or both not.")
    body = {name: value for name, value in vars(cls).items() if name not in _OF_EVERY_CLASS}
    hints: Mapping[str, Any] = body.get("__annotations__", {})
    names = [name for name, hint in hints.items() if not _is_class_variable(hint)]
    inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    contents = {name: value for name, value in body.items() if name not in names}
    contents["__slots__"] = tuple(name for name in names if name not in inherited)
    positional = [each for base in bases for each in base.__match_args__]
    positional += [name for name in names if _is_positional(body.get(name), options.kw_only)]
    contents["__match_args__"] = tuple(dict.fromkeys(positional))
    made: dict[str, Any] = {
        "__getstate__": _state,
        "__setstate__": _restore,
        "__dataclass_params__": _FrozenParams if options.frozen else _Params,
    }
    if options.frozen:
        made |= {"__setattr__": _refuse_to_assign, "__delattr__": _refuse_to_delete}
    elif options.eq:
        made["__hash__"] = None
    lean: Any = type(cls)(cls.__name__, cls.__bases__, {**made, **contents})
    lean.__qualname__ = cls.__qualname__
    made = {
        "__init__": _init_at_first_use(lean, options),
        **{name: _standard_at_first_use(lean, name, body, options) for name in _added(options)},
    }
    for name, method in made.items():
        if body.get(name) is None:
            setattr(lean, name, method)
    lean.__dataclass_fields__ = _FieldsAtFirstUse(lean, bases, body, options.kw_only)
    defined: type = lean
    return defined


def _added(options: _Options) -> tuple[str, ...]:
    """Return the methods that the standard decorator adds for printing and comparing."""
    compared = ("__eq__", "__hash__") if options.frozen else ("__eq__",)
    return ("__repr__", *compared) if options.eq else ("__repr__",)


def _is_class_variable(hint: Any) -> bool:
    return hint is ClassVar or getattr(hint, "__origin__", None) is ClassVar


def _is_positional(value: Any, kw_only: bool) -> bool:
    if not isinstance(value, dataclasses.Field):
        return not kw_only
    is_named = kw_only if value.kw_only is dataclasses.MISSING else value.kw_only
    return value.init and not is_named


def _twin(cls: type, body: Mapping[str, Any]) -> type:
    """The class as it was written, for the standard decorator."""
    return type(cls.__name__, cls.__bases__, dict(body))


def _init_at_first_use(cls: type, options: _Options) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        init = cls.__init__ = _init_of(cls, options)  # type: ignore[misc]
        init(self, *args, **kwargs)

    return __init__


def _init_of(cls: type, options: _Options) -> Callable[..., None]:
    """Compile `__init__` as the standard decorator does."""
    put = "put(self, {!r}, {})" if options.frozen else "self.{} = {}"
    scope: dict[str, Any] = {"put": object.__setattr__, "unset": _UNSET}
    positional, keyword, lines = ["self"], ["*"], []
    for each in dataclasses.fields(cls):
        name, default = each.name, f"default_of_{each.name}"
        value, parameter = name, name
        if each.default is not dataclasses.MISSING:
            scope[default] = each.default
            parameter = f"{name}={default}"
            value = name if each.init else default
        elif each.default_factory is not dataclasses.MISSING:
            scope[default] = each.default_factory
            parameter = f"{name}=unset"
            value = f"{default}() if {name} is unset else {name}" if each.init else f"{default}()"
        elif not each.init:
            continue
        lines.append(put.format(name, value))
        if each.init:
            (keyword if each.kw_only else positional).append(parameter)
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    signature = ", ".join(positional + (keyword if len(keyword) > 1 else []))
    exec(f"def __init__({signature}):\n " + "\n ".join(lines or ["pass"]), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _standard_at_first_use(
    cls: type, name: str, body: Mapping[str, Any], options: _Options
) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        twin = options.standard(_twin(cls, body))
        for each in _added(options):
            if body.get(each) is None:
                setattr(cls, each, getattr(twin, each))
        return getattr(cls, name)(self, *args)

    method.__name__ = name
    return method


def _refuse_to_assign(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
