"""Applies themes, previews them, and follows the terminal's background and a theme's file."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from textual.theme import Theme as TextualTheme
from textual.worker import Worker

from dirge_py.slash.base import Choice
from dirge_py.types.errors import ConfigError
from dirge_py.types.extensions import Theme
from dirge_py.ui.panels.choices import Picker
from dirge_py.ui.prompt.file_index import awatch
from dirge_py.ui.theme import styles

_ASK_BACKGROUND = "\x1b]11;?\x1b\\\x1b[?2031h"
"""Ask for the background, and for a report when the terminal switches between dark and light."""
_MUTE_TERMINALS = ("linux", "dumb", "")
"""Values of TERM for terminals that would print the question."""


class ThemeSwitcher:
    """The active theme. `problem` says why it isn't the one called `name`.

    `draw` gets the theme for Textual and the name of the one that it replaces; `to_terminal` sends
    an escape sequence. `is_dark` is the background until the terminal reports it.
    """

    def __init__(
        self,
        name: str,
        *,
        draw: Callable[[TextualTheme, str], None],
        notify: Callable[..., None],
        run_worker: "Callable[..., Worker[None]]",
        to_terminal: Callable[[str], None],
        is_dark: bool = True,
    ) -> None:
        self._draw, self._notify, self._run_worker = draw, notify, run_worker
        self._to_terminal = to_terminal
        self._is_dark = is_dark
        self._serial = 0
        self._watcher: Worker[None] | None = None
        self.name = name
        self.theme, self.problem = styles.theme_or_default(name, is_dark=is_dark)
        self._use_styles(self.theme)

    @property
    def background(self) -> Literal["dark", "light"]:
        """The terminal's background, as far as it is known."""
        return "dark" if self._is_dark else "light"

    def _use_styles(self, theme: Theme) -> None:
        self.styles = styles.styles_for(theme)
        self.panel_styles = styles.styles_for(theme, "surface")

    def use(self, name: str) -> str:
        """Apply the theme of this name, or the default one; return the problem."""
        self.name = name
        theme, self.problem = styles.theme_or_default(name, is_dark=self._is_dark)
        self.show(theme)
        self.watch()
        self.ask_background()
        return self.problem

    def ask_background(self) -> None:
        """Ask the terminal for its background if the theme follows it; nothing waits for this."""
        if self.name == styles.AUTO_THEME and os.environ.get("TERM", "") not in _MUTE_TERMINALS:
            self._to_terminal(_ASK_BACKGROUND)

    def on_background(self, *, is_dark: bool) -> None:
        """Follow the background that the terminal has reported."""
        if is_dark == self._is_dark:
            return
        self._is_dark = is_dark
        if self.name == styles.AUTO_THEME:
            theme, self.problem = styles.theme_or_default(self.name, is_dark=is_dark)
            self.show(theme)

    def show(self, theme: Theme) -> None:
        """Draw with another theme."""
        self.theme = theme
        self._use_styles(theme)
        before, self._serial = f"dirge-{self._serial}", self._serial + 1
        self._draw(textual_theme(theme, self._serial), before)

    def watch(self) -> None:
        """Watch the theme's file if it is the person's own."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        if file := styles.user_themes().get(self.name):
            self._watcher = self._run_worker(partial(self._follow, file), exit_on_error=False)

    async def pick(self, choices: Sequence[Choice], picker: Picker) -> str | None:
        """Let the person choose a theme; the one at the cursor is shown."""
        before = self.theme

        def try_out(name: str) -> None:
            theme, _ = styles.theme_or_default(name, is_dark=self._is_dark)
            if theme != self.theme:
                self.show(theme)

        chosen = None
        try:
            chosen = await picker.ask("Theme", choices, self.name, try_out)
        finally:
            if chosen is None:
                self.show(before)
        return chosen

    async def _follow(self, file: Path) -> None:
        linked = file.resolve()
        names = {file.name, linked.name}
        async for changes in awatch(*{file.parent, linked.parent}, recursive=False):
            if not names & {Path(path).name for _, path in changes} or not file.exists():
                continue
            try:
                theme = styles.load_theme(self.name)
            except ConfigError as error:
                self._notify(error.in_one_line(), tone="warning")
            else:
                self.problem = ""
                self.show(theme)


def textual_theme(theme: Theme, serial: int = 0) -> TextualTheme:
    """Return the theme for Textual, which notices a change only by the name."""
    colors = styles.complete_colors(theme)
    return TextualTheme(
        name=f"dirge-{serial}",
        dark=theme.dark,
        primary=colors["accent"],
        secondary=colors["tool"],
        accent=colors["accent"],
        warning=colors["warning"],
        error=colors["error"],
        success=colors["good"],
        foreground=colors["text"],
        background=colors["background"],
        surface=colors["surface"],
        panel=colors["surface"],
        variables=css_variables(theme),
    )


def css_variables(theme: Theme) -> dict[str, str]:
    """Return the variables of dirge's style sheets."""
    colors = styles.complete_colors(theme)
    background = colors["background"]
    return {
        "dirge-dim": colors["dim"],
        "dirge-border": colors["border"],
        "dirge-warning": colors["warning"],
        "scrollbar": colors["border"],
        "scrollbar-hover": colors["dim"],
        "scrollbar-active": colors["dim"],
        **{f"scrollbar-background{state}": background for state in ("", "-hover", "-active")},
        "scrollbar-corner-color": background,
        "screen-selection-background": colors["selection"],
    }
