"""Tracks whether code was edited in a run, and whether it was built, tested or linted since."""

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from dirge_py.guards.stop_checks import nudge, stop_check
from dirge_py.guards.tool_hooks import claimed_paths, claims_of
from dirge_py.lib.shell_lexer import without_here_documents, word_set
from dirge_py.lib.text import one_line
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.messages import Message
from dirge_py.types.tools import LoopToolResult, ShellCommand, ToolCall

VerificationStatus = Literal["untouched", "unverified", "red", "green"]

CODE_EXTENSIONS = word_set(
    "py pyi pyx rs go c h cc cpp cxx hpp hh m mm java kt kts scala groovy cs fs vb js jsx mjs cjs "
    "ts tsx mts cts vue svelte rb php swift dart lua pl pm r jl ex exs erl hs ml mli clj cljs zig "
    "nim sh bash zsh fish ps1 sql proto"
)

# A call with one of these outcomes has changed nothing.
_WITHOUT_EFFECT = word_set("error denied invalid unknown_tool suppressed")
_RED = word_set("failed_command error timeout")
_MARKERS = word_set(
    "test build check lint compile verify typecheck vet clippy pytest unittest doctest tox nox "
    "ctest jest vitest mocha ava jasmine karma cypress playwright rspec minitest phpunit pest bats "
    "eslint tslint stylelint ruff mypy pyright flake8 pylint tsc golangci-lint staticcheck rubocop "
    "phpstan psalm shellcheck hadolint ktlint detekt swiftlint xcodebuild javac rustc gcc clang "
    "nextest biome oxlint basedpyright"
)
_NO_CHECKS = word_set("checkout install add remove uninstall")
_PAIRS = frozenset({("go", "vet"), ("go", "run"), ("go", "test")})
_BUILDERS = word_set("make gmake ninja")
# They run the project's own checks: `npm run test:unit`, `just type-check`.
_RUNNERS = word_set(
    "npm pnpm yarn bun deno make gmake just task rake composer gradle gradlew mvn mvnw hatch poe "
    "pdm invoke"
)
_INTERPRETERS = word_set("sh bash zsh python python3 node ruby perl php")
_WRAPPERS = word_set("sudo env time timeout nice nohup command exec")
# They only read, move or print: they check nothing, whatever their arguments are.
_READERS = word_set(
    "ls cat head tail less more grep egrep fgrep rg ag find fd tree stat wc file du diff echo "
    "printf cd pushd mkdir rmdir rm cp mv ln touch chmod sed awk sort cut git gh which type man "
    "export source kill ps curl wget tee vi vim nano code"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_NUMBER = re.compile(r"\d[\d.]*[smhd]?")


class Verification:
    """Records one run's edits of code and its checks. Reading it changes nothing."""

    def __init__(self) -> None:
        self.edited: tuple[str, ...] = ()
        """The edited code files, in the order of their first edit."""
        self.status: VerificationStatus = "untouched"
        """`red` and `green` refer to a check that ran after the last edit of code."""
        self.command = ""
        """The last check that ran; "" if there was none."""
        self.has_failed = False
        """Whether that check failed, on the current code or on an earlier version."""

    def observe(self, call: ToolCall, outcome: str) -> None:
        """Record a call that ran, and its outcome."""
        code = [path for path in claimed_paths(call, "edit") if is_code(path)]
        if code and outcome not in _WITHOUT_EFFECT:
            self.edited = tuple(dict.fromkeys((*self.edited, *code)))
            # Earlier checks were about other code.
            self.status = "unverified"
        resources = [claim.resource for claim in claims_of(call)]
        for command in (each.text for each in resources if isinstance(each, ShellCommand)):
            if outcome == "aborted" or not is_verification(command):
                continue
            self.command, self.has_failed = command, outcome in _RED
            if self.edited:
                self.status = "red" if self.has_failed else "green"


def track_verification(verification: Verification) -> Hooks:
    """Return hooks for one run that keep `verification` up to date."""

    def after_tool_call(_info: TurnInfo, call: ToolCall, result: LoopToolResult) -> None:
        unsaid = "error" if result.is_error else "ok"
        verification.observe(call, result.details.get("outcome") or unsaid)

    return Hooks(name="verification", after_tool_call=after_tool_call)


def is_code(path: str) -> bool:
    """Whether a change of this file may break a build; documents and settings do not count."""
    name = path.replace("\\", "/").rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    return bool(stem and dot) and extension.lower() in CODE_EXTENSIONS


def is_verification(command: str) -> bool:
    """Whether a shell command builds, tests or lints, guessed from its words; never raises."""
    lines = without_here_documents(command.replace("\\\n", " ").split("\n"))
    segments = (segment for line in lines for segment in re.split(r"[&|;]", line))
    return any(_checks(segment.split()) for segment in segments)


def _checks(words: Sequence[str]) -> bool:
    plain = [each for word in words if (each := word.strip("\"'`()").lstrip("-").lower())]
    if not plain or _NO_CHECKS.intersection(plain):
        return False
    program, *rest = _without_wrappers([word.strip("\"'`()") for word in words]) or [""]
    name = program.rpartition("/")[2].lower()
    if name in _READERS or program.startswith("#"):
        return False
    if _MARKERS.intersection(plain) or _PAIRS.intersection(pairwise(plain)):
        return True
    if name in _BUILDERS:
        # Without a target it builds everything.
        targets = [
            word
            for before, word in pairwise(["", *rest])
            if not (_is_flag(word) or _ASSIGNMENT.match(word) or before in ("-C", "-f", "-j"))
        ]
        if not any(targets):
            return True
    if name in _RUNNERS:
        return any(_has_marker(word) for word in rest if "/" not in word)
    # The files that the command runs, as far as they are named.
    scripts = [program] if "/" in program else []
    if name in _INTERPRETERS:
        scripts += [word for word in rest if not _is_flag(word)][:1]
    return any(_has_marker(word.rpartition("/")[2]) for word in scripts)


def _without_wrappers(words: list[str]) -> list[str]:
    """Return the words from the program on, without wrappers such as `env` and `timeout`."""
    is_wrapped = False
    for at, word in enumerate(words):
        is_wrapper = word.rpartition("/")[2] in _WRAPPERS
        is_setting = is_wrapped and (_is_flag(word) or _NUMBER.fullmatch(word))
        if not (word == "" or is_wrapper or is_setting or _ASSIGNMENT.match(word)):
            return words[at:]
        is_wrapped = is_wrapped or is_wrapper
    return []


def _has_marker(word: str) -> bool:
    pieces = re.split(r"[-_.:]", word.lower())
    return any(piece in _MARKERS or piece.removesuffix("s") in _MARKERS for piece in pieces)


def _is_flag(word: str) -> bool:
    return word.startswith("-")


SHOWN_FILES = 5
COMMAND_CHARS = 120


def verification_check(verification: Verification, most: int = 1) -> Hooks:
    """Return a stop check for edited code that was not checked since, or whose check failed."""

    def ask(_info: TurnInfo) -> Sequence[Message]:
        command = f"`{one_line(verification.command, COMMAND_CHARS)}`"
        files = _files(verification.edited)
        if verification.status == "red":
            return nudge(
                f"You edited {files}, and the last check of it failed: {command}. Fix what broke "
                "and run it again. If it failed before your change already, say so and how you "
                "know."
            )
        if verification.status == "unverified":
            earlier = (
                f" ({command} failed before your last edit)" if verification.has_failed else ""
            )
            return nudge(
                f"You edited {files}, and nothing has built, tested or linted it since{earlier}. "
                "Run the check that fits. If there is none, or it cannot run here, say so and why."
            )
        return ()

    return stop_check("verifier", ask, most=most)


def _files(paths: Sequence[str]) -> str:
    # Shown as the model most likely wrote it: relative to the working folder.
    shown = [f"`{path.removeprefix(os.getcwd() + os.sep)}`" for path in paths[:SHOWN_FILES]]
    more = f" and {len(paths) - SHOWN_FILES} more" if len(paths) > SHOWN_FILES else ""
    return f"{', '.join(shown)}{more}"
