"""Our themes as Textual's: the colours of the widgets that Textual draws."""

from textual.theme import Theme as TextualTheme

from dirge_py.types.extensions import Theme
from dirge_py.ui.ink import complete_colors


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
