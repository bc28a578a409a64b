"""`dirge completion bash|zsh|fish`: a script that completes flags, subcommands and their values."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module

from dirge_py.cli.arguments import (
    Parser,
    build_parser,
    build_resume_parser,
    build_turn_parser,
)
from dirge_py.cli.completion_scripts import SCRIPTS, Flag, Place
from dirge_py.cli.doctor import build_doctor_parser
from dirge_py.cli.embed import build_embed_parser
from dirge_py.cli.serve.command import build_serve_parser
from dirge_py.cli.session_flags import VERBS as SESSION_VERBS
from dirge_py.cli.session_flags import build_sessions_parsers
from dirge_py.cli.signal import build_signal_parser
from dirge_py.cli.trust import build_trust_parser

_CONFIG_VERBS = ("init", "check", "show", "path", "prompt")
_FILES = {"FILE": "files", "DIR": "folders"}


def completion_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `completion` are its own; `completion is slow` is a prompt."""
    return not rest or rest[0].startswith("-") or (rest[0] in SCRIPTS and len(rest) == 1)


def build_completion_parser() -> Parser:
    """The flags of `dirge completion`."""
    lines = "\n".join(
        (
            '  bash   eval "$(dirge completion bash)"            in ~/.bashrc',
            '  zsh    eval "$(dirge completion zsh)"             in ~/.zshrc, after compinit',
            "  fish   dirge completion fish > ~/.config/fish/completions/dirge.fish",
        )
    )
    parser = Parser(
        prog="dirge completion",
        usage=f"dirge completion SHELL\n\n{lines}",
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    return parser


def completion(rest: Sequence[str]) -> int:
    """Print the script; returns the exit code. Raises UsageError for no shell that is known."""
    flags = build_completion_parser().parse_args(list(rest))
    sys.stdout.write(SCRIPTS[flags.shell](places()))
    return 0


def places() -> Sequence[Place]:
    """Each place of the command line where words can be completed, the whole of it first."""
    return [
        _place("", build_parser(), words=tuple(_PARSERS)),
        *(place for name, made in _PARSERS.items() for place in made(name)),
    ]


def _one(build: Callable[[], Parser]) -> Callable[[str], Iterator[Place]]:
    return lambda name: iter([_place(name, build())])


def _sessions(name: str) -> Iterator[Place]:
    for verb, parser in zip(SESSION_VERBS, build_sessions_parsers(), strict=True):
        if verb == "list":
            yield _place(name, parser, words=tuple(SESSION_VERBS))
        yield _place(f"{name} {verb}", parser)


def _config(name: str) -> Iterator[Place]:
    flags = (
        Flag(names=("--config",), help="read FILE instead of the usual config.toml", takes="files"),
        Flag(names=("--template",), help="init: ask nothing, write a file with comments"),
    )
    yield Place(name=name, flags=flags, words=_CONFIG_VERBS)


def _demo(name: str) -> Iterator[Place]:
    flags = (
        Flag(names=("--print", "-p"), help="without the screen"),
        Flag(names=("--plan",), help="a request in four phases"),
    )
    yield Place(name=name, flags=flags)


def _why(name: str) -> Iterator[Place]:
    # Only here: the names of the tools are a list of files.
    build = import_module("dirge_py.cli.why").build_parser
    tools = import_module("dirge_py.tools.registry").names()
    yield _place(name, build(), words=tuple(tools))


_PARSERS: Mapping[str, Callable[[str], Iterator[Place]]] = {
    "demo": _demo,
    "why": _why,
    "config": _config,
    "sessions": _sessions,
    "serve": _one(build_serve_parser),
    "trust": _one(build_trust_parser),
    "doctor": _one(build_doctor_parser),
    "turn": _one(build_turn_parser),
    "resume": _one(build_resume_parser),
    "signal": _one(build_signal_parser),
    "embed": _one(build_embed_parser),
    "completion": lambda name: iter([Place(name=name, words=tuple(SCRIPTS))]),
}


def _place(name: str, parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Place:
    shown = [
        action
        for action in parser._actions
        if action.option_strings and action.help != argparse.SUPPRESS
    ]
    return Place(name=name, flags=tuple(map(_flag, shown)), words=words)


def _flag(action: argparse.Action) -> Flag:
    choices = tuple(map(str, action.choices)) if action.choices else ()
    takes = "" if action.nargs == 0 else _FILES.get(str(action.metavar), "text")
    if action.nargs == "?":
        takes = ""
    return Flag(
        names=tuple(action.option_strings),
        help=(action.help or "").replace("%%", "%"),
        choices=choices,
        takes="words" if choices else takes,
    )
