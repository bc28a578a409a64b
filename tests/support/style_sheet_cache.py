"""Parses and applies style sheets once for all apps of a test process.

All apps have the same ones, and they take a third of the time to start an app for one test.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.widget import Widget

_READ: dict[Any, Any] = {}
_SHEETS: dict[tuple[int, ...], int] = {}
_MATCHED: dict[Any, tuple[Any, tuple[bool, ...]]] = {}

_FLAGS = ("_has_hover_style", "_has_focus_within", "_has_order_style", "_has_odd_or_even")
"""What a node is told of the rules for it; all but the first mean that they look at others too."""


def share() -> None:
    """Make every `Stylesheet` of this process reuse parsed rules of others with its variables."""
    _share_reading()
    _share_matching()


def _share_reading() -> None:
    read: Callable[..., Any] = Stylesheet._parse_rules

    @wraps(read)
    def parse_rules(self: Stylesheet, *args: Any, **options: Any) -> Any:
        known, frozen = self.__dict__.get("_frozen", (None, None))
        if known is not self._variables:
            frozen = tuple(sorted(self._variables.items()))
            self.__dict__["_frozen"] = (self._variables, frozen)
        key = (frozen, args, tuple(options.items()))
        if key not in _READ:
            _READ[key] = read(self, *args, **options)
        return _READ[key]

    Stylesheet._parse_rules = parse_rules  # type: ignore[method-assign]


def _share_matching() -> None:
    match: Callable[..., None] = Stylesheet.apply
    replace: Callable[..., None] = Stylesheet.replace_rules

    def replace_rules(node: DOMNode, rules: Any, animate: bool = False) -> None:
        node.__dict__["_matched"] = rules
        replace(node, rules, animate=animate)

    @wraps(match)
    def apply(self: Stylesheet, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:
        key = (_sheet(self), *map(_state, node.css_path_nodes))
        if key in _MATCHED:
            rules, flags = _MATCHED[key]
            for name, flag in zip(_FLAGS, flags, strict=True):
                setattr(node, name, flag)
            if rules is not None:
                replace(node, rules, animate=animate)
            self._process_component_classes(node)
            return
        match(self, node, animate=animate, cache=cache)
        flags = tuple(getattr(node, name) for name in _FLAGS)
        rules = node.__dict__.pop("_matched", None)
        if not any(flags[1:]):
            _MATCHED[key] = rules, flags

    Stylesheet.replace_rules = staticmethod(replace_rules)  # type: ignore[method-assign]
    Stylesheet.apply = apply  # type: ignore[method-assign]


def _sheet(sheet: Stylesheet) -> int:
    """A number for all sheets with these rules, kept for the life of the process."""
    rules = sheet.rules
    number: int
    known, number = sheet.__dict__.get("_numbered", (None, 0))
    if known is not rules:
        number = _SHEETS.setdefault(tuple(map(id, rules)), len(_SHEETS))
        sheet.__dict__["_numbered"] = (rules, number)
    return number


def _state(node: DOMNode) -> tuple[object, ...]:
    """Everything that a selector can test of a node, except its position."""
    name = (type(node), node._id, frozenset(node._classes))
    if isinstance(node, Widget):
        return (*name, node.mouse_hover, node.has_focus, node.is_disabled, node.allow_focus())
    if isinstance(node, App):
        theme = node.current_theme
        return (
            *name,
            node.app_focus,
            theme.dark,
            node.is_inline,
            node.native_ansi_color,
            node.no_color,
        )
    return name
