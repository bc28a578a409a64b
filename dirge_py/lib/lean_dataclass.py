"""`@dataclass(frozen=True, slots=True)`, cheap to define: its methods are created on first use.

The standard decorator compiles six methods for every class, a third of a millisecond each. A
headless run defines two hundred classes, creates instances of seventy, and compares or prints none.
Here `__init__` is compiled with the first instance; `__repr__`, `__eq__` and `__hash__` are the
standard library's, created on first use. In every other respect the result is a standard dataclass:
`fields`, `replace`, `match`, `copy` and `pickle` work on it, and classes may inherit from it, which
are then standard ones.

For classes that a start defines; type checkers see the standard decorator.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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


def _defined(cls: type, kw_only: bool) -> type:
    if any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]):
        return dataclasses.dataclass(frozen=True, slots=True, kw_only=kw_only)(cls)
    body = {name: value for name, value in vars(cls).items() if name not in _OF_EVERY_CLASS}
    lean: Any = dataclasses.dataclass(
        init=False, repr=False, eq=False, match_args=True, kw_only=kw_only, slots=True
    )(cls)
    # `dataclasses` checks this before it lets a class inherit from this one.
    lean.__dataclass_params__.frozen = True
    made: dict[str, Any] = {
        "__init__": _init_at_first_use(lean),
        **{name: _standard_at_first_use(lean, name, body, kw_only) for name in _COMPARING},
        "__setattr__": _refuse_to_assign,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _restore,
    }
    for name, method in made.items():
        if body.get(name) is None:
            setattr(lean, name, method)
    defined: type = lean
    return defined


_OF_EVERY_CLASS = ("__dict__", "__weakref__")


def _init_at_first_use(cls: type) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        init = cls.__init__ = _init_of(cls)  # type: ignore[misc]
        init(self, *args, **kwargs)

    return __init__


def _init_of(cls: type) -> Callable[..., None]:
    """Compile `__init__` as the standard decorator does for a frozen class."""
    scope: dict[str, Any] = {"put": object.__setattr__, "unset": _UNSET}
    positional, keyword, lines = ["self"], ["*"], []
    for field in dataclasses.fields(cls):
        name, default = field.name, f"default_of_{field.name}"
        value, parameter = name, name
        if field.default is not dataclasses.MISSING:
            scope[default] = field.default
            parameter = f"{name}={default}"
            value = name if field.init else default
        elif field.default_factory is not dataclasses.MISSING:
            scope[default] = field.default_factory
            parameter = f"{name}=unset"
            value = f"{default}() if {name} is unset else {name}" if field.init else f"{default}()"
        elif not field.init:
            continue
        lines.append(f"put(self, {name!r}, {value})")
        if field.init:
            (keyword if field.kw_only else positional).append(parameter)
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(positional + (keyword if len(keyword) > 1 else []))
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _standard_at_first_use(
    cls: type, name: str, body: dict[str, Any], kw_only: bool
) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        twin: type = dataclasses.dataclass(frozen=True, kw_only=kw_only)(
            type(cls.__name__, cls.__bases__, dict(body))
        )
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
