"""`dirge completion bash|zsh|fish`: a script made from the parsers of all commands."""

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from dirge_py.cli.arguments import (
    CONFIG_VERBS,
    SESSIONS_VERBS,
    Parser,
    build_config_parser,
    build_demo_parser,
    build_parser,
    build_resume_parser,
    build_sessions_parser,
    build_turn_parser,
)
from dirge_py.cli.doctor import build_doctor_parser
from dirge_py.cli.embed import build_embed_parser
from dirge_py.cli.serve.command import build_serve_parser
from dirge_py.cli.signal import build_signal_parser
from dirge_py.cli.trust import build_trust_parser

_FILES = {"FILE": "files", "DIR": "folders"}
_USAGE = """\
  bash   eval "$(dirge completion bash)"            in ~/.bashrc
  zsh    eval "$(dirge completion zsh)"             in ~/.zshrc, after compinit
  fish   dirge completion fish > ~/.config/fish/completions/dirge.fish"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A command and what can follow it."""

    name: str
    """Empty for `dirge` itself; else a subcommand, with its verb if any (`sessions show`)."""
    flags: tuple[argparse.Action, ...] = ()
    """Its flags."""
    words: tuple[str, ...] = ()
    """The words that can follow directly."""


def bash(places: Sequence[CommandSpec]) -> str:
    """For `eval` in bash 3.2 or later; needs no bash-completion."""
    place = _shell_place(places, "${COMP_WORDS[1]}", "${COMP_WORDS[2]}", "COMP_CWORD")
    return _filled("bash", PLACE=place, VALUES=_bash_values(places), OFFERS=_bash_offers(places))


def zsh(places: Sequence[CommandSpec]) -> str:
    """For `eval` in zsh after `compinit`, or as a file `_dirge` in `$fpath`."""
    place = _shell_place(places, "${words[2]}", "${words[3]}", "CURRENT - 1")
    return _filled("zsh", PLACE=place, OFFERS=chain.from_iterable(map(_zsh_offer, places)))


def fish(places: Sequence[CommandSpec]) -> str:
    """For a file `dirge.fish` among fish's completions."""
    names = " ".join(shlex.quote(place.name) for place in places if place.name)
    known = f"            if contains -- $name {names}"
    return _filled("fish", KNOWN=[known], OFFERS=chain.from_iterable(map(_fish_offer, places)))


def _filled(shell: str, **parts: Iterable[str]) -> str:
    """The script of the file beside this module, with lines in the place of each `@PART@`."""
    text = Path(__file__).with_suffix(f".{shell}").read_text(encoding="utf-8")
    for name, lines in parts.items():
        text = text.replace(f"@{name}@\n", "".join(f"{line}\n" for line in lines))
    return text


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}


def _shell_place(
    places: Sequence[CommandSpec], first: str, second: str, current: str
) -> Iterator[str]:
    """Lines that set `place`, and `first`, the index of the command's first own word."""
    yield "    local place= first=1"
    for depth, words in ((1, f'"{first}"'), (2, f'"{first} {second}"')):
        names = [place.name for place in places if len(place.name.split()) == depth]
        patterns = "|".join(shlex.quote(name) for name in names)
        yield f"    (( {current} > {depth} )) && case {words} in"
        yield f"        {patterns}) place={words} first={depth + 1} ;;"
        yield "    esac"


def _bash_values(places: Sequence[CommandSpec]) -> Iterator[str]:
    names = "local IFS=$'\\n'; compopt -o filenames 2>/dev/null; "
    for place in places:
        for flag in filter(_value_of, place.flags):
            patterns = "|".join(shlex.quote(f"{place.name} {name}") for name in flag.option_strings)
            act = {
                "files": f'{names}COMPREPLY=($(compgen -f -- "$cur")); ',
                "folders": f'{names}COMPREPLY=($(compgen -d -- "$cur")); ',
                "words": f'COMPREPLY=($(compgen -W {shlex.quote(_choices_of(flag))} -- "$cur")); ',
            }.get(_value_of(flag), "")
            yield f"        {patterns}) {act}return ;;"


def _bash_offers(places: Sequence[CommandSpec]) -> Iterator[str]:
    for place in places:
        flags = (name for flag in place.flags for name in flag.option_strings)
        offered = shlex.quote(" ".join([*place.words, *flags]))
        yield f"        {shlex.quote(place.name)}) offered={offered} ;;"


def _zsh_offer(place: CommandSpec) -> Iterator[str]:
    yield f"        {shlex.quote(place.name)})"
    if place.words:
        words = " ".join(map(shlex.quote, place.words))
        yield f"            (( CURRENT == first + 1 )) && compadd -- {words}"
    specs = [_zsh_flag(flag, name) for flag in place.flags for name in flag.option_strings]
    yield "            _arguments " + " ".join([*map(shlex.quote, specs), "'*: :_files'"])
    yield "            ;;"


def _zsh_flag(flag: argparse.Action, name: str) -> str:
    help_text = _help_of(flag)
    for special in "\\[]:":
        help_text = help_text.replace(special, f"\\{special}")
    after = {
        "files": ": :_files",
        "folders": ": :_files -/",
        "text": ": :",
        "words": f": :({_choices_of(flag)})",
    }.get(_value_of(flag), "")
    return f"*{name}[{help_text}]{after}"


def _fish_offer(place: CommandSpec) -> Iterator[str]:
    at = shlex.quote(f"__dirge_at {shlex.quote(place.name)}")
    depth = len(place.name.split()) + 1
    for word in place.words:
        first = shlex.quote(f"__dirge_first {shlex.quote(place.name)} {depth}")
        only = " -f" if place.name else ""
        yield f"complete -c dirge -n {first}{only} -a {shlex.quote(word)}"
    for flag in place.flags:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            for name in flag.option_strings
        )
        after = {
            "files": " -r -F",
            "folders": " -x -a '(__fish_complete_directories)'",
            "text": " -x",
            "words": f" -x -a {shlex.quote(_choices_of(flag))}",
        }.get(_value_of(flag), "")
        help_text = _help_of(flag).replace("\\", "\\\\").replace("'", "\\'")
        yield f"complete -c dirge -n {at} {names}{after} -d '{help_text}'"


def completion_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `completion` are its own; `completion is slow` is a prompt."""
    return not rest or rest[0].startswith("-") or (rest[0] in SCRIPTS and len(rest) == 1)


def build_completion_parser() -> Parser:
    """The flags of `dirge completion`."""
    parser = Parser(prog="dirge completion", usage=f"dirge completion SHELL\n\n{_USAGE}")
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    return parser


def completion(rest: Sequence[str]) -> int:
    """Print the script; returns the exit code. Raises UsageError: the shell is unknown."""
    flags = build_completion_parser().parse_args(list(rest))
    sys.stdout.write(SCRIPTS[flags.shell](command_specs()))
    return 0


def command_specs() -> Sequence[CommandSpec]:
    """Every command whose words can be completed, `dirge` itself first."""
    from dirge_py.cli.stats import build_stats_parser
    from dirge_py.cli.update import build_update_parser
    from dirge_py.cli.why import build_why_parser
    from dirge_py.tools.toolbox import tool_names

    subcommands = [
        _command_spec("demo", build_demo_parser()),
        _command_spec("why", build_why_parser(), tool_names()),
        _command_spec("config", build_config_parser(), CONFIG_VERBS),
        _command_spec("sessions", build_sessions_parser("list"), SESSIONS_VERBS),
        *(_command_spec(f"sessions {v}", build_sessions_parser(v)) for v in SESSIONS_VERBS),
        _command_spec("stats", build_stats_parser()),
        _command_spec("update", build_update_parser()),
        _command_spec("serve", build_serve_parser()),
        _command_spec("trust", build_trust_parser()),
        _command_spec("doctor", build_doctor_parser()),
        _command_spec("turn", build_turn_parser()),
        _command_spec("resume", build_resume_parser()),
        _command_spec("signal", build_signal_parser()),
        _command_spec("embed", build_embed_parser()),
        CommandSpec(name="completion", words=tuple(SCRIPTS)),
    ]
    names = [spec.name for spec in subcommands if " " not in spec.name]
    return [_command_spec("", build_parser(), names), *subcommands]


def _command_spec(
    name: str, parser: argparse.ArgumentParser, words: Iterable[str] = ()
) -> CommandSpec:
    flags = tuple(a for a in parser._actions if a.option_strings and a.help != argparse.SUPPRESS)
    return CommandSpec(name=name, flags=flags, words=tuple(words))


def _value_of(flag: argparse.Action) -> str:
    """The kind of the flag's value: words, files, folders or text; "" for none."""
    if flag.choices:
        return "words"
    return "" if flag.nargs in (0, "?") else _FILES.get(str(flag.metavar), "text")


def _choices_of(flag: argparse.Action) -> str:
    return " ".join(map(str, flag.choices or ()))


def _help_of(flag: argparse.Action) -> str:
    return (flag.help or "").replace("%%", "%")
