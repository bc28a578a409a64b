"""The theme in use: applied, previewed from a list, and read again when its file changes.

Our themes as Textual's: the colours of the widgets that Textual draws.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from textual.theme import Theme as TextualTheme
from textual.worker import Worker

from dirge_py.slash.base import Choice
from dirge_py.types.errors import ConfigError
from dirge_py.types.extensions import Theme
from dirge_py.ui.prompt.file_index import awatch
from dirge_py.ui.screen_app import ScreenApp
from dirge_py.ui.theme.styles import (
    complete_colors,
    load_theme,
    styles_for,
    theme_or_default,
    user_theme_file,
)


class ThemeSwitcher:
    """The theme in use. `problem` says why it is not the one called `name`, if it is not."""

    def __init__(self, app: ScreenApp, name: str) -> None:
        self._app = app
        self._serial = 0
        self._watcher: Worker[None] | None = None
        self._load(name)

    def _load(self, name: str) -> None:
        self.name = name
        self.theme, self.problem = theme_or_default(name)
        self._use_styles(self.theme)

    def _use_styles(self, theme: Theme) -> None:
        self._app.theme_styles = styles_for(theme)
        self._app.panel_styles = styles_for(theme, "surface")

    def use(self, name: str) -> str:
        """Apply the theme of this name, or the default one; returns what is wrong with it."""
        self._load(name)
        self.show(self.theme)
        self.watch()
        return self.problem

    def show(self, theme: Theme) -> None:
        """Draw with these colours; nothing moves."""
        self.theme = theme
        self._use_styles(theme)
        before, self._serial = f"dirge-{self._serial}", self._serial + 1
        self._app.draw_with(textual_theme(theme, self._serial), before=before)

    def watch(self) -> None:
        """Follow the theme's file, if it is the person's own; one of ours does not change."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        file = user_theme_file(self.name)
        if file is not None and self._app.is_running:
            self._watcher = self._app.run_worker(partial(self._follow, file), exit_on_error=False)

    async def pick(self, choices: Sequence[Choice]) -> str | None:
        """The theme that the person chooses; each is shown while the cursor is on it."""
        app, before = self._app, self.theme

        def try_out(name: str) -> None:
            theme, _ = theme_or_default(name)
            if theme != self.theme:
                self.show(theme)

        chosen = None
        try:
            chosen = await app.picker.ask("Theme", choices, self.name, try_out)
        finally:
            if chosen is None:
                self.show(before)
            app.composer.focus()
        return chosen

    async def _follow(self, file: Path) -> None:
        # A file that is a link is changed where it really is.
        places = {file.parent, file.resolve().parent}
        names = {file.name, file.resolve().name}
        async for changes in awatch(*places, recursive=False):
            if not names & {Path(path).name for _, path in changes} or not file.exists():
                continue
            try:
                theme = load_theme(self.name)
            except ConfigError as error:
                self._app.notify_user(error.in_one_line(), tone="warning")
            else:
                self.problem = ""
                self.show(theme)


def textual_theme(theme: Theme, serial: int = 0) -> TextualTheme:
    """What Textual needs to know of a theme. It looks again only when the name is another one."""
    colors = complete_colors(theme)
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
    """The variables that our own style sheets use beside Textual's."""
    colors = complete_colors(theme)
    return {
        "dirge-dim": colors["dim"],
        "dirge-border": colors["border"],
        "dirge-warning": colors["warning"],
        "scrollbar": colors["border"],
        "scrollbar-hover": colors["dim"],
        "scrollbar-active": colors["dim"],
        "scrollbar-background": colors["background"],
        "scrollbar-background-hover": colors["background"],
        "scrollbar-background-active": colors["background"],
        "scrollbar-corner-color": colors["background"],
        "screen-selection-background": colors["selection"],
    }
