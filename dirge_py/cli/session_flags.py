"""The flags of `dirge sessions`, verb by verb."""

from collections.abc import Sequence

from dirge_py.cli.arguments import Parser

VERBS = {
    "list": "the sessions of this project, the last used first (also plain `dirge sessions`)",
    "show": "one session: what is known of it, its prompts, its branches",
    "search": "where words were said",
    "export": "one session as Markdown, HTML or JSON",
    "repair": "what is damaged, and mending what can be; the index is made anew",
    "delete": "move sessions to the trash, for 7 days",
    "import": "take over sessions of Claude Code or Codex",
}

_SHOWN = 20


def build_sessions_parsers() -> Sequence[Parser]:
    """The parser of each verb, in the order of `VERBS`."""
    return [build_parser(verb) for verb in VERBS]


def build_parser(verb: str) -> Parser:
    """The flags of one verb; each has `-C` as well."""
    lines = "\n".join(f"  {name:7} {summary}" for name, summary in VERBS.items())
    usage = f"dirge sessions [VERB]\n\n{lines}" if verb == "list" else None
    parser = Parser(
        prog="dirge sessions" if verb == "list" else f"dirge sessions {verb}",
        usage=usage,
        description=None if verb == "list" else VERBS[verb] + ".",
        allow_abbrev=False,
    )
    _ADD[verb](parser)
    parser.add_argument("-C", "--cwd", metavar="DIR", help="the project around DIR")
    parser.set_defaults(verb=verb)
    return parser


def _list(parser: Parser) -> None:
    parser.add_argument("words", nargs="*")
    _all(parser, "the sessions of every project")
    _json(parser)
    parser.add_argument("-n", metavar="N", type=_count, help="only the newest N")


def _show(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="ID")
    _json(parser)


def _search(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD")
    _all(parser, "in every project")
    _json(parser)
    parser.add_argument(
        "-n", metavar="N", type=_count, default=_SHOWN, help=f"in at most N sessions ({_SHOWN})"
    )


def _export(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="ID")
    parser.add_argument("--format", choices=("md", "html", "json"), default="md")
    parser.add_argument("-o", metavar="FILE", dest="output_file", help="into FILE, not to stdout")


def _repair(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="ID")
    _all(parser, "every session of every project")


def _delete(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="ID")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--undo", action="store_true", help="bring deleted sessions back")


def _import(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="FILE")
    parser.add_argument(
        "--from",
        dest="program",
        choices=("claude", "codex", "auto"),
        default="auto",
        help="which program wrote it",
    )


_ADD = {
    "list": _list,
    "show": _show,
    "search": _search,
    "export": _export,
    "repair": _repair,
    "delete": _delete,
    "import": _import,
}


def _all(parser: Parser, meaning: str) -> None:
    parser.add_argument("--all", action="store_true", dest="everywhere", help=meaning)


def _json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _count(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)
