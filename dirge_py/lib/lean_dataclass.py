"""`@dataclass(frozen=True, slots=True)`, cheap to define: what it adds is created on first use.

The standard decorator compiles six methods for every class, a third of a millisecond each. A
headless run defines two hundred classes, creates instances of seventy, and compares or prints none.
Here a class is only given its slots. `__init__` is compiled with the first instance; the `Field`
objects, `__repr__`, `__eq__` and `__hash__` are the standard library's, created on first use. In
every other respect the result is a standard dataclass: `fields`, `replace`, `match`, `copy` and
`pickle` work on it, and classes may inherit from it, which are then standard ones.

For classes that a start defines; type checkers see the standard decorator.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_origin

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, slots: bool, kw_only: bool = False) -> Callable[[type], type]:
        """Return the class with fields, slots and frozen instances; no other options."""
        if not (frozen and slots):
            raise TypeError("These are frozen and have slots; others are `dataclasses.dataclass`.")

        return lambda cls: _defined(cls, kw_only)


_COMPARING = ("__repr__", "__eq__", "__hash__")
_UNSET = object()
_OF_EVERY_CLASS = ("__dict__", "__weakref__")


class _Params:
    """What `dataclasses` asks of a class before another one may inherit from it."""

    init = repr = eq = frozen = match_args = slots = True
    order = unsafe_hash = kw_only = weakref_slot = False


class _FieldsAtFirstUse:
    """`__dataclass_fields__` of one class, replaced by the standard value when it is read."""

    def __init__(self, cls: type, body: Mapping[str, Any], kw_only: bool) -> None:
        self._cls = cls
        self._body = body
        self._kw_only = kw_only

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        standard = dataclasses.dataclass(
            init=False, repr=False, eq=False, match_args=False, kw_only=self._kw_only
        )
        twin: Any = standard(_twin(self._cls, self._body))
        cls: Any = self._cls
        cls.__dataclass_fields__ = twin.__dataclass_fields__
        return twin.__dataclass_fields__


class _Parameter(NamedTuple):
    """One field, as far as `__init__` needs it."""

    name: str
    default: Any
    factory: Any
    init: bool
    kw_only: bool


def _defined(cls: type, kw_only: bool) -> type:
    if any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:]):
        return dataclasses.dataclass(frozen=True, slots=True, kw_only=kw_only)(cls)
    body = {name: value for name, value in vars(cls).items() if name not in _OF_EVERY_CLASS}
    hints: Mapping[str, Any] = body.get("__annotations__", {})
    names = [name for name, hint in hints.items() if not _is_class_variable(hint)]
    parameters = [_parameter(name, body.get(name, dataclasses.MISSING), kw_only) for name in names]
    inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    contents = {name: value for name, value in body.items() if name not in names}
    contents["__slots__"] = tuple(name for name in names if name not in inherited)
    contents["__match_args__"] = tuple(p.name for p in parameters if p.init and not p.kw_only)
    made: dict[str, Any] = {
        "__setattr__": _refuse_to_assign,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _restore,
        "__dataclass_params__": _Params,
    }
    lean = type(cls)(cls.__name__, cls.__bases__, {**made, **contents})
    lean.__qualname__ = cls.__qualname__
    made = {
        "__init__": _init_at_first_use(lean, parameters),
        **{name: _standard_at_first_use(lean, name, body, kw_only) for name in _COMPARING},
    }
    for name, method in made.items():
        if body.get(name) is None:
            setattr(lean, name, method)
    lean.__dataclass_fields__ = _FieldsAtFirstUse(lean, body, kw_only)  # type: ignore[attr-defined]
    return lean


def _is_class_variable(hint: Any) -> bool:
    return hint is ClassVar or get_origin(hint) is ClassVar


def _parameter(name: str, value: Any, kw_only: bool) -> _Parameter:
    if not isinstance(value, dataclasses.Field):
        return _Parameter(name, value, dataclasses.MISSING, True, kw_only)
    own = value.kw_only
    is_named = kw_only if own is dataclasses.MISSING else own
    return _Parameter(name, value.default, value.default_factory, value.init, is_named)


def _twin(cls: type, body: Mapping[str, Any]) -> type:
    """The class as it was written, for the standard decorator."""
    return type(cls.__name__, cls.__bases__, dict(body))


def _init_at_first_use(cls: type, parameters: Sequence[_Parameter]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        init = cls.__init__ = _init_of(cls, parameters)  # type: ignore[misc]
        init(self, *args, **kwargs)

    return __init__


def _init_of(cls: type, parameters: Sequence[_Parameter]) -> Callable[..., None]:
    """Compile `__init__` as the standard decorator does for a frozen class."""
    scope: dict[str, Any] = {"put": object.__setattr__, "unset": _UNSET}
    positional, keyword, lines = ["self"], ["*"], []
    for each in parameters:
        name, default = each.name, f"default_of_{each.name}"
        value, parameter = name, name
        if each.default is not dataclasses.MISSING:
            scope[default] = each.default
            parameter = f"{name}={default}"
            value = name if each.init else default
        elif each.factory is not dataclasses.MISSING:
            scope[default] = each.factory
            parameter = f"{name}=unset"
            value = f"{default}() if {name} is unset else {name}" if each.init else f"{default}()"
        elif not each.init:
            continue
        lines.append(f"put(self, {name!r}, {value})")
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
    cls: type, name: str, body: Mapping[str, Any], kw_only: bool
) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        twin: Any = dataclasses.dataclass(frozen=True, kw_only=kw_only)(_twin(cls, body))
        for each in _COMPARING:
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
