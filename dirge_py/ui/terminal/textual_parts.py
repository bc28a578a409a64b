"""The private parts of Textual that dirge uses, which any release may rename; a check of them."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

import textual

from dirge_py.types.errors import DirgeError

TESTED_VERSION = "8.2.7"
"""The oldest release of the minor version that dirge is tested with; pyproject.toml pins it."""


def _members(owner: str, names: str) -> tuple[str, ...]:
    return tuple(f"{owner}.{name}" for name in names.split())


PRIVATE_PARTS: Mapping[str, Sequence[str]] = {
    # How a terminal's sequences are read.
    "textual._ansi_sequences": ("ANSI_SEQUENCES_KEYS",),
    "textual._keyboard_protocol": ("FUNCTIONAL_KEYS", "MODIFIER_FUNCTIONAL_KEYS"),
    "textual._xterm_parser": _members("XTermParser", "_parse_extended_key _sequence_to_key_events"),
    "textual.keys": ("_character_to_key",),
    # The driver: the terminal's size, its mouse, and the thread that writes to it.
    "textual.drivers.linux_driver": _members(
        "LinuxDriver",
        "_auto_restart _disable_mouse_support _enable_mouse_support _file _get_terminal_size _mouse"
        " _must_signal_resume _sigcont_application _size _writer_thread",
    ),
    # The app: how it ends, and whether the terminal has the focus.
    "textual.app": _members(
        "App", "_close_messages_no_wait _driver _fatal_error _handle_exception _watch_app_focus"
    ),
    # What is drawn, also for the early frame.
    "textual._compositor": ("Compositor", "Compositor._render_chops"),
    "textual.screen": ("Screen._compositor",),
    "textual.widget": _members("Widget", "_on_key _scroll_update"),
    # The input.
    "textual.document._document": ("EditResult", "Location", "Selection"),
    "textual.document._edit": ("Edit._edit_result",),
    "textual.document._history": ("EditHistory",),
    "textual.widgets": _members(
        "TextArea",
        "_cursor_offset _on_key _on_mouse_down _on_paste _recompute_cursor_offset"
        " _replace_via_keyboard _validate_selection",
    ),
}
"""By module: names, or `Class.name` for what is overridden, called or read of a class."""


def check_textual() -> None:
    """Raise DirgeError if the installed Textual lacks a private part that dirge uses."""
    if missing := list(missing_parts()):
        raise DirgeError(
            f"dirge does not work with Textual {textual.__version__}, which is installed here: "
            f"it has no {', '.join(f'`{part}`' for part in missing)}.",
            hint=f"Install a version that dirge is tested with: "
            f'pip install "textual~={TESTED_VERSION}"',
        )


def missing_parts() -> Iterator[str]:
    """Yield the parts that the installed Textual lacks, with their modules."""
    for module_name, names in PRIVATE_PARTS.items():
        try:
            module = import_module(module_name)
        except ImportError:
            yield module_name
            continue
        for name in names:
            owner_name, _, member = name.rpartition(".")
            owner = getattr(module, owner_name, None) if owner_name else module
            if owner is None or not (hasattr(owner, member) or _sets(owner, member)):
                yield f"{module_name}.{name}"


def _sets(owner: object, name: str) -> bool:
    classes = owner.__mro__ if isinstance(owner, type) else ()
    starts = (vars(cls)["__init__"] for cls in classes if "__init__" in vars(cls))
    return any(name in start.__code__.co_names for start in starts if hasattr(start, "__code__"))
