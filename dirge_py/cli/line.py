"""What line mode is started with."""

from argparse import Namespace

from dirge_py.cli.checks import first_prompt
from dirge_py.cli.choices import build_options, key_from_stdin, load_settings
from dirge_py.cli.dumb import is_dumb
from dirge_py.cli.openers import openers
from dirge_py.frontend.line.run import run_line
from dirge_py.frontend.line.start import LineSettings, LineStart


def line_mode(flags: Namespace) -> int:
    """Run line mode; returns the exit code."""
    key = key_from_stdin() if flags.api_key_stdin else None
    opening = openers(lambda: load_settings(flags, key), lambda: build_options(flags))

    def prepare() -> LineSettings:
        config = load_settings(flags, key)
        opening.look(config)
        return LineSettings(show_thinking=config.ui.show_thinking, aliases=config.aliases)

    return run_line(
        LineStart(
            open_first=opening.first,
            open_other=opening.other,
            prepare=prepare,
            project=opening.project,
            first_prompt=first_prompt(flags),
            pick_session=flags.resume == "",
            is_dumb=is_dumb(),
        )
    )
