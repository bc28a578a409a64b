"""The parsers of the command line: flags, their help, and subcommands."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from dirge_py.lib.lazy import late
from dirge_py.lib.nearest import nearest
from dirge_py.lib.version import __version__
from dirge_py.types.errors import UsageError
from dirge_py.types.modes import CLAUDE_MODES, MODES, mode_named

_recording = late("dirge_py.providers.recording", "HttpRecording")
SANDBOX_MODES = ("off", "preferred", "required", "bwrap")
CHOICES = ("inspect", "done", "again")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The only hosts of `dirge serve`, because input on the page can run commands."""
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")
_MODE: dict[str, Any] = {"dest": "modes", "action": "append_const", "default": []}
_WITHOUT_CHOICE: dict[str, object] = {"print": True, "input_format": None, "resume": None}
_WITHOUT_CHOICE |= dict.fromkeys(
    ("continue_", "fork_session", "no_session", "plan", "all_projects"), False
)
"""The flags of `dirge -p` that subcommands which continue a session do not have."""
CONFIG_VERBS = {
    "init": "set up a provider: a few questions and a test request",
    "check": "check the settings, and list the providers",
    "show": "show every setting in effect and where it comes from",
    "path": "print where the settings are",
    "prompt": "print the system prompt, with tokens per section",
}
SESSIONS_VERBS = {
    "list": "list the sessions of this project, newest first (the default)",
    "show": "show one session: its details, prompts and branches",
    "search": "search messages for words",
    "export": "print one session as Markdown, HTML or JSON",
    "repair": "find and repair damage, and rebuild the index",
    "delete": "move sessions to the trash, where they stay for 7 days",
    "import": "import sessions from Claude Code or Codex",
}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError, with the nearest flag as a hint."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        hint = f"`{self.prog} --help` lists every flag."
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            flag = message.removeprefix(prefix).split(" ")[0].split("=")[0]
            near = nearest(flag, self._option_string_actions)
            message = f"no flag `{flag}`."
            if near:
                hint = f"Did you mean `{near}`?"
        raise UsageError(message, hint=hint)


def build_parser() -> Parser:
    """The flags of `dirge`."""
    parser = Parser(
        prog="dirge",
        usage="dirge [options] [prompt…]",
        description="A coding agent for the terminal: steer it while it works, script it with -p.",
        epilog=Path(__file__).with_name("help.txt").read_text(encoding="utf-8").rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("prompt", nargs="*", help="the first prompt")
    plan_help = "explore, plan, implement and review it, like /plan"
    parser.add_argument("--plan", action="store_true", help=plan_help)
    headless = parser.add_argument_group("print mode")
    add = headless.add_argument
    add("-p", "--print", action="store_true", help="do one run, print the answer, exit")
    input_help = "with -p: stream-json reads one user message per line; during a run it steers"
    add("--input-format", choices=("text", "stream-json"), help=input_help)
    _output_flags(headless)
    add = parser.add_argument_group("sessions").add_argument
    continue_help = "continue the newest session of this project"
    add("-c", "--continue", action="store_true", dest="continue_", help=continue_help)
    resume_help = "pick a session, or resume the one with this id or prefix"
    add("-r", "--resume", nargs="?", const="", metavar="ID", help=resume_help)
    all_help = "with -r: pick from the sessions of all projects"
    add("--all", action="store_true", dest="all_projects", help=all_help)
    add("--session", metavar="ID", type=_session_id, help="open this session, or create it")
    add("--fork-session", action="store_true", help="continue in a copy, as a new session")
    add("--no-session", action="store_true", help="don't store the session")
    _shared_flags(parser)
    add, hide = parser.add_argument, argparse.SUPPRESS
    add("--session-id", dest="session", type=_session_id, help=hide)
    add("--effort", dest="thinking", choices=LEVELS, help=hide)
    add("--max-budget-usd", dest="max_cost_usd", type=_positive, help=hide)
    add("--max-agent-turns", dest="max_turns", type=positive_int, help=hide)
    add("--dangerously-skip-permissions", const="yolo", **_MODE, help=hide)
    return parser


def build_turn_parser() -> Parser:
    """The flags of `dirge turn`."""
    parser = Parser(
        prog="dirge turn",
        usage="dirge turn --session ID [options] [prompt…]",
        description="Run one turn of a session and exit: for queues, cron and CI. "
        "Without a prompt the session continues where it is.",
        epilog="Exit codes: 0 done, 10 call it again, 11 awaiting confirmation; else as dirge -p.",
        add_help=False,
    )
    parser.add_argument("prompt", nargs="*", help="the prompt; also from stdin, as with -p")
    add = parser.add_argument_group("session").add_argument
    add("--session", metavar="ID", type=_session_id, required=True, help="open it, or create it")
    add("--input", metavar="TEXT", help="the prompt; dirge then doesn't read stdin")
    _output_flags(parser.add_argument_group("output"))
    _shared_flags(parser)
    parser.set_defaults(**_WITHOUT_CHOICE, file=[])
    return parser


def build_resume_parser() -> Parser:
    """The flags of `dirge resume`."""
    parser = Parser(
        prog="dirge resume",
        usage="dirge resume FILE --confirm | --reject TEXT [options]\n"
        "       dirge resume --session ID [--interrupted inspect|done|again] [options]",
        description="Decide the call that a run left open, and continue the run: FILE is the "
        "`continuation` of its result. Or continue the run of a session that was cut off when "
        "dirge was killed.",
        epilog="What else would ask waits again (--on-ask defer): exit code 11, and a new FILE.",
        add_help=False,
    )
    parser.add_argument("file", nargs="*", metavar="FILE", help="the continuation")
    add = parser.add_argument_group("decision").add_argument
    add("--confirm", action="store_true", help="run the call")
    add("--reject", metavar="TEXT", help="don't run it; the model gets TEXT")
    add("--tool-call-id", metavar="ID", help="fail unless this call is the one that waits")
    add = parser.add_argument_group("a run that was cut off").add_argument
    session_help = "continue its last run"
    add("--session", metavar="ID", type=_session_id, dest="carries_on", help=session_help)
    choice_help = (
        "calls that may have run already: inspect them (default), treat them as done, or run again"
    )
    add("--interrupted", choices=CHOICES, help=choice_help)
    _output_flags(parser.add_argument_group("output"))
    _shared_flags(parser)
    parser.set_defaults(**_WITHOUT_CHOICE, prompt=[], session=None, on_ask="defer")
    return parser


def build_demo_parser() -> Parser:
    """The flags of `dirge demo`."""
    parser = Parser(prog="dirge demo", description="Watch dirge work, without a provider.")
    parser.add_argument(
        "-p", "--print", action="store_true", help="plain output, without the terminal UI"
    )
    parser.add_argument("--plan", action="store_true", help="a bigger request, with /plan")
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The flags as attributes. Raises UsageError; `--help` prints and exits 0."""
    return parse_words(build_parser(), argv, "prompt")


def parse_words(parser: Parser, argv: Sequence[str], into: str) -> argparse.Namespace:
    """Parse flags and words in any order; words after `--` are added to the words `into`."""
    # argparse reads mixed flags and words twice, and what follows `--` as flags.
    at = argv.index("--") if "--" in argv else len(argv)
    flags = parser.parse_intermixed_args(list(argv[:at]))
    setattr(flags, into, [*getattr(flags, into), *argv[at + 1 :]])
    return flags


def _output_flags(group: Any) -> None:
    add = group.add_argument
    output_help = "with -p: text (default), one JSON object, or JSON lines"
    add("--output-format", choices=("text", "json", "stream-json"), help=output_help)
    event_help = "shape of stream-json (default claude)"
    add("--event-format", choices=("claude", "native"), help=event_help)
    add("--include-partial-messages", action="store_true", help="stream-json: also text deltas")
    add("-o", metavar="FILE", dest="output_file", help="with -p: also write the final text to FILE")
    schema_help = "with -p: answer with JSON that matches this schema, or fail"
    add("--json-schema", metavar="S|@FILE", help=schema_help)


def _shared_flags(parser: Parser) -> None:
    add = parser.add_argument_group("model").add_argument
    add("-m", "--model", metavar="MODEL", help="[provider/]id[:level]")
    add("--provider", metavar="NAME", help="a provider's alias or type")
    add("--base-url", metavar="URL", help="the provider's URL")
    add("--thinking", metavar="LEVEL", choices=LEVELS, help=", ".join(LEVELS))
    add("--api-key-file", metavar="FILE", help="read the key from FILE")
    add("--api-key-stdin", action="store_true", help="read the key from the first line of stdin")
    add("--system-prompt", metavar="TEXT", help="replace dirge's system prompt")
    add("--system-prompt-file", metavar="FILE", help="the same, from FILE")
    add("--append-system-prompt", metavar="TEXT", help="add to the system prompt")
    add("--append-system-prompt-file", metavar="FILE", help="the same, from FILE")
    add("--prompt", metavar="NAME", dest="prompt_name", help="use one of your prompts, by name")
    add("--no-context-files", action="store_true", help="don't send AGENTS.md and CLAUDE.md")
    add = parser.add_argument_group("permissions").add_argument
    add(
        "--permission-mode",
        metavar="MODE",
        type=mode_named,
        choices=MODES,
        help=f"{', '.join(MODES)}; also {', '.join(CLAUDE_MODES)}",
    )
    add("--yolo", const="yolo", **_MODE, help="allow everything except what is always denied")
    add("--accept-all", const="accept", **_MODE, help="same as --permission-mode accept")
    add("--restrictive", const="restrictive", **_MODE, help="same as --permission-mode restrictive")
    allow_help = "allow calls that match op:pattern, such as execute:make *; repeatable"
    add("--allow", metavar="RULE", action="append", default=[], help=allow_help)
    add("--deny", metavar="RULE", action="append", default=[], help="deny them; repeatable")
    add("--allowedTools", metavar="TOOLS", action="append", default=[], help="as in Bash(npm test)")
    add("--disallowedTools", metavar="TOOLS", action="append", default=[], help="the same")
    ask_help = "with -p: the answer to permission questions"
    add("--on-ask", choices=("deny", "defer", "abort"), help=ask_help)
    add("--sandbox", metavar="MODE", choices=SANDBOX_MODES, help="off, preferred, required")
    add("--tools", metavar="A,B", help="offer only these tools")
    add("--no-tools", action="store_true", help="offer no tools")
    add("--add-dir", metavar="DIR", action="append", default=[], help="extend the workspace by DIR")
    add("-C", "--cwd", metavar="DIR", help="start in DIR")
    add = parser.add_argument_group("limits").add_argument
    add("--max-turns", metavar="N", type=positive_int, help="stop after N model calls in one run")
    cost_help = "stop at this cost, if prices are known"
    add("--max-cost", metavar="USD", type=_positive, dest="max_cost_usd", help=cost_help)
    add("--max-tokens", metavar="N", type=positive_int, help="stop after N tokens, in and out")
    add("--timeout", metavar="S", type=_positive, dest="timeout_s", help="stop after S seconds")
    add = parser.add_argument_group("other").add_argument
    add("--line", action="store_true", help="plain lines instead of the terminal UI")
    add("--config", metavar="FILE", help="read FILE instead of the usual config.toml")
    add("--no-color", action="store_true", help="no colors")
    add("-v", "--verbose", action="store_true", help="write a log file")
    record_help = "record what models are sent and what they answer"
    add("--record", metavar="FILE", type=_recording, help=record_help)
    add("--version", action="version", version=f"dirge {__version__}", help="print the version")
    add("-h", "--help", action="help", help="print this help")


def _session_id(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an id: letters, digits and ._- only")
    return text


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def positive_int(text: str) -> int:
    """A flag's number. Raises argparse.ArgumentTypeError."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def takes_only_flags(rest: Sequence[str]) -> bool:
    """Whether the words after `doctor`, `trust` or `serve` are flags; `trust me` is a prompt."""
    return not rest or rest[0].startswith("-")


def build_config_parser() -> Parser:
    """The flags of `dirge config`."""
    lines = "\n".join(f"  {verb:7} {summary}" for verb, summary in CONFIG_VERBS.items())
    parser = Parser(prog="dirge config", usage=f"dirge config [VERB]\n\n{lines}")
    add = parser.add_argument
    add("verb", nargs="?", choices=tuple(CONFIG_VERBS), default="show")
    add("--config", metavar="FILE", help="read FILE instead of the usual config.toml")
    add("--template", action="store_true", help="init: write a commented file without asking")
    return parser


def build_sessions_parser(verb: str) -> Parser:
    """The flags of one verb of `dirge sessions`."""
    is_list = verb == "list"
    lines = "\n".join(f"  {name:7} {summary}" for name, summary in SESSIONS_VERBS.items())
    parser = Parser(
        prog="dirge sessions" if is_list else f"dirge sessions {verb}",
        usage=f"dirge sessions [VERB]\n\n{lines}" if is_list else None,
        description=None if is_list else SESSIONS_VERBS[verb] + ".",
    )
    add = parser.add_argument
    words = {"list": None, "search": "WORD", "import": "FILE"}
    add("words", nargs="*", metavar=words.get(verb, "ID"))
    if verb in ("list", "search", "repair"):
        add("--all", action="store_true", dest="everywhere", help="sessions of all projects")
    if verb in ("list", "show", "search"):
        add("--json", action="store_true", help="one JSON object")
    if is_list:
        add("-n", metavar="N", type=positive_int, help="only the newest N")
    elif verb == "search":
        add("-n", metavar="N", type=positive_int, default=20, help="in at most N sessions (20)")
    elif verb == "export":
        add("--format", choices=("md", "html", "json"), default="md")
        add("-o", metavar="FILE", dest="output_file", help="write to FILE instead of stdout")
    elif verb == "delete":
        add("--yes", action="store_true", help="don't ask")
        add("--undo", action="store_true", help="restore deleted sessions")
    elif verb == "import":
        programs = ("claude", "codex", "auto")
        help_text = "the program that wrote them"
        add("--from", dest="program", choices=programs, default="auto", help=help_text)
    add("-C", "--cwd", metavar="DIR", help="use the project around DIR")
    parser.set_defaults(verb=verb)
    return parser
