"""Tracks whether code was edited in a run, and whether it was checked since: run or tested."""

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath
from typing import Literal

from dirge_py.guards.final_answer import reports_failure, reports_no_check
from dirge_py.guards.stop_checks import StopCheck, final_words
from dirge_py.guards.tool_hooks import claimed_paths
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.shell_lexer import simple_commands, word_set
from dirge_py.lib.text import one_line
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.tools import LoopToolResult, ShellCommand, ToolCall

VerificationStatus = Literal["untouched", "unverified", "red", "green"]

CODE_EXTENSIONS = word_set(
    "py pyi pyx rs go c h cc cpp cxx hpp hh m mm java kt kts scala groovy cs fs vb js jsx mjs cjs "
    "ts tsx mts cts vue svelte rb php swift dart lua pl pm r jl ex exs erl hs ml mli clj cljs zig "
    "nim sh bash zsh fish ps1 proto"
)

_DID_NOT_RUN = word_set("denied invalid unknown_tool suppressed")
_RED = word_set("failed_command error timeout")
_MARKERS = word_set(
    "test build check lint compile verify typecheck vet clippy pytest unittest doctest tox nox "
    "ctest jest vitest mocha ava jasmine karma cypress playwright rspec minitest phpunit pest bats "
    "eslint tslint stylelint ruff mypy pyright flake8 pylint tsc golangci-lint staticcheck rubocop "
    "phpstan psalm shellcheck hadolint ktlint detekt swiftlint xcodebuild javac rustc gcc clang "
    "nextest biome oxlint basedpyright"
)
_NO_CHECKS = word_set("checkout install add remove uninstall")
_BUILDERS = word_set("make gmake ninja")
# They run the project's own checks: `npm run test:unit`, `just type-check`.
_RUNNERS = word_set(
    "npm pnpm yarn bun deno make gmake just task rake composer gradle gradlew mvn mvnw hatch poe "
    "pdm invoke"
)
_WRAPPERS = word_set("sudo env time timeout nice nohup command exec npx")
# They only read, move or print: they check nothing, whatever their arguments are.
_READERS = word_set(
    "ls cat head tail less more grep egrep fgrep rg ag find fd tree stat wc file du diff echo "
    "printf cd pushd mkdir rmdir rm cp mv ln touch chmod sed awk sort cut git gh which type man "
    "export kill ps curl wget tee vi vim nano code"
)
_ASSIGNMENT = late_pattern(r"[A-Za-z_]\w*=")
_NUMBER = late_pattern(r"\d[\d.]*[smhd]?")
_SHELLS = word_set("sh bash zsh dash ksh fish")
_RUNTIMES = _SHELLS | word_set(
    "python pypy node nodejs ruby perl php lua luajit rscript julia elixir java groovy scala "
    "kotlin ts-node tsx pwsh runghc ocaml clojure"
)
_VERSION = late_pattern(r"[\d.]+$")
_INLINE = late_pattern(r"-\w*[cepr]|--(?:eval|print|command)")
_PACKAGERS = word_set("pip pip3 apt apt-get brew conda gem tar zip unzip gzip scp rsync ssh docker")
_PROJECT_RUNNERS = _RUNNERS | word_set("cargo go dotnet swift zig mix flask cabal sbt flutter")
_RUN_WORDS = word_set("run start dev serve")
_LAUNCHERS = frozenset(
    {(name, "run") for name in ("uv", "poetry", "pdm", "hatch", "rye", "pipenv", "pipx")}
    | {(name, "exec") for name in ("bundle", "npm", "pnpm", "yarn")}
)
_SYSTEM_FOLDERS = ("/usr/", "/bin/", "/sbin/", "/opt/")
_RESERVED = word_set("if then elif else do while until ! { } time")
_ENTRY_POINT = late_pattern(r"[\w.]+:\w+")


class Verification:
    """Records one run's edits of code and its checks. Reading it changes nothing."""

    def __init__(self) -> None:
        self._edits: list[tuple[tuple[str, ...], str]] = []
        """The paths of each call that edited code; its diff if it is of one file, else ""."""
        self._checked_edits = 0
        """How many of the edits the last check was about."""
        self.command = ""
        """The last check that ran; "" if there was none."""
        self.has_failed = False
        """Whether that check failed, on the current code or on an earlier version."""

    @property
    def edited(self) -> tuple[str, ...]:
        """The edited code files, in the order of their first edit."""
        return tuple(dict.fromkeys(self._changed(0)))

    def _changed(self, first: int) -> list[str]:
        """Return the files that edits from this one on changed in more than comments."""
        return [
            path
            for paths, diff in self._edits[first:]
            if not changes_only_comments(paths[0], diff)
            for path in paths
        ]

    @property
    def status(self) -> VerificationStatus:
        """`red` and `green` refer to a check that ran after the last edit of code."""
        if self._changed(self._checked_edits):
            return "unverified"
        if not self.edited:
            return "untouched"
        return "red" if self.has_failed else "green"

    def observe(self, call: ToolCall, outcome: str, diff: str = "") -> None:
        """Record a call, its outcome, and the unified diff of what it changed."""
        if outcome in _DID_NOT_RUN:
            return
        changed = claimed_paths(call, "edit")
        code = tuple(path for path in changed if is_code(path))
        if code and outcome != "error":
            self._edits.append((code, diff if len(changed) == 1 else ""))
        for claim in call.claims or ():
            if isinstance(claim.resource, ShellCommand) and outcome != "aborted":
                self._observe_command(claim.resource, outcome)

    def _observe_command(self, command: ShellCommand, outcome: str) -> None:
        has_failed = outcome in _RED
        if not is_verification(command.text):
            paths = [path for each, _ in self._edits for path in each]
            if not paths or not runs_code(command, paths):
                return
            # A server runs until its time is up, and a program that works may be called to fail.
            has_failed = has_failed and outcome != "timeout" and self.status != "green"
        self.command, self.has_failed = command.text, has_failed
        self._checked_edits = len(self._edits)


def track_verification(verification: Verification) -> Hooks:
    """Return hooks for one run that keep `verification` up to date."""

    def after_tool_call(_info: TurnInfo, call: ToolCall, result: LoopToolResult) -> None:
        unsaid = "error" if result.is_error else "ok"
        diff = result.details.get("diff")
        outcome = result.details.get("outcome") or unsaid
        verification.observe(call, outcome, diff if isinstance(diff, str) else "")

    return Hooks(name="verification", after_tool_call=after_tool_call)


def is_code(path: str) -> bool:
    """Whether a change of this file may break a build; documents and settings do not count."""
    return PurePath(path.replace("\\", "/")).suffix[1:].lower() in CODE_EXTENSIONS


def is_verification(command: str) -> bool:
    """Whether a shell command builds, tests or lints, guessed from its words; never raises."""
    return any(map(_checks, simple_commands(command)))


def runs_code(command: ShellCommand, paths: Sequence[str]) -> bool:
    """Whether a command runs, imports or parses one of these files, or a program of the project.

    Guessed from its words; never raises.
    """
    return _runs(command.text, _EditedFiles(paths, command.cwd))


def _checks(words: Sequence[str]) -> bool:
    pieces = [piece for word in words for piece in re.split(r"[\s&|;]+", word.lower())]
    plain = [piece.lstrip("-") for piece in pieces if piece.strip("-")]
    name, program, rest = _launched(words)
    if not name or name in _READERS or not _NO_CHECKS.isdisjoint(plain):
        return False
    if not _MARKERS.isdisjoint(plain) or ("go", "run") in pairwise(plain):
        return True
    if name in _BUILDERS:
        # Without a target it builds everything.
        targets = [
            word
            for before, word in pairwise(["", *rest])
            if not (_is_flag(word) or _ASSIGNMENT.match(word) or before in ("-C", "-f", "-j"))
        ]
        if not targets:
            return True
    if name in _RUNNERS:
        return any(_has_marker(word) for word in rest if "/" not in word)
    # The files that the command runs, as far as they are named.
    scripts = [program] if "/" in program else []
    if _VERSION.sub("", name) in _RUNTIMES:
        scripts += [word for word in rest if not _is_flag(word)][:1]
    return any(_has_marker(word.rpartition("/")[2]) for word in scripts)


def _has_marker(word: str) -> bool:
    pieces = re.split(r"[-_.:]", word.lower())
    return any(piece in _MARKERS or piece.removesuffix("s") in _MARKERS for piece in pieces)


def _is_flag(word: str) -> bool:
    return word.startswith("-")


class _EditedFiles:
    """The names by which commands refer to edited files."""

    def __init__(self, paths: Sequence[str], cwd: str) -> None:
        files = [PurePath(path.replace("\\", "/")) for path in paths]
        self.names = {file.name for file in files}
        """Their file names."""
        self.modules = {file.stem for file in files}
        """What code that uses them may import: their stems, and the folders they are in."""
        for file in files:
            inside = file.relative_to(cwd) if file.is_relative_to(cwd) else file
            self.modules.update(inside.parent.parts[-3:])

    def are_named(self, words: Sequence[str]) -> bool:
        """Whether one of the words is the path of a file, or an entry point such as `app:main`."""
        pieces = {piece for word in words for piece in re.split(r"[=:@]", word)}
        if self.names.intersection(piece.rpartition("/")[2] for piece in pieces):
            return True
        return any(_ENTRY_POINT.fullmatch(word) and self.are_mentioned(word) for word in words)

    def are_mentioned(self, code: str) -> bool:
        """Whether a name that would import one of them occurs in `code`; `b` in `a.b` is none."""
        return not self.modules.isdisjoint(re.findall(r"(?<![\w.])\w+", code))


def _runs(text: str, edited: _EditedFiles) -> bool:
    for words in simple_commands(text):
        name, program, rest = _launched(words)
        operands = [word for word in rest if not _is_flag(word)]
        if not name or name in _READERS or name in _PACKAGERS:
            continue
        if edited.are_named([program, *rest]) or name in edited.modules:
            return True
        if _VERSION.sub("", name) in _RUNTIMES:
            is_run = _runtime_runs(name, rest, text, edited)
        elif name in _PROJECT_RUNNERS:
            if name in _RUNNERS and operands[:1] == ["run"] and len(operands) > 1:
                operands.pop(0)
            is_run = not _RUN_WORDS.isdisjoint(re.split(r"[-_.:]", "".join(operands[:1])))
        else:
            is_run = "/" in program and not program.startswith(_SYSTEM_FOLDERS)
        if is_run:
            return True
    return False


def _runtime_runs(name: str, rest: Sequence[str], text: str, edited: _EditedFiles) -> bool:
    operands = [word for word in rest if not _is_flag(word)]
    if name in _SHELLS and any(re.fullmatch(r"-\w*c", word) for word in rest):
        return any(_runs(code, edited) for code in operands)
    if "-m" in rest[:-1]:
        return edited.are_mentioned(rest[rest.index("-m") + 1])
    is_inline = name not in _SHELLS and any(_INLINE.fullmatch(word) for word in rest)
    if is_inline or "<<" in text or not rest:
        return edited.are_mentioned(text)
    return bool(operands)


def _launched(words: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """Return the program's name, the word that starts it, and the words after it.

    Words that only launch it are left out, such as `sudo` and `uv run`. A comment has no name.
    """
    is_wrapped, at = False, 0
    while at < len(words):
        word = words[at]
        is_wrapper = word.rpartition("/")[2] in _WRAPPERS
        if tuple(words[at : at + 2]) in _LAUNCHERS:
            at += 1
        elif not (
            is_wrapper
            or word in _RESERVED
            or (is_wrapped and (_is_flag(word) or _NUMBER.fullmatch(word)))
            or _ASSIGNMENT.match(word)
        ):
            name = word.rpartition("/")[2].lower()
            return "" if name[:1] == "#" else name, word, words[at + 1 :]
        is_wrapped = is_wrapped or is_wrapper
        at += 1
    return "", "", ()


@lru_cache(maxsize=256)
def changes_only_comments(path: str, diff: str) -> bool:
    """Whether a unified diff of one file changes comments, docstrings and blank lines alone.

    Guessed from the changed lines; False if the diff is empty or incomplete.
    """
    lines = diff.split("\n")[2:]
    if not any(lines) or lines[-1].startswith("…"):
        return False
    blocks: list[tuple[list[str], list[str]]] = []
    before = ""
    for line in lines:
        sign = line[:1]
        if sign in ("+", "-"):
            if before not in ("+", "-"):
                blocks.append(([], []))
            blocks[-1][sign == "+"].append(line[1:])
        before = sign
    return all(_code_of(path, old) == _code_of(path, new) for old, new in blocks)


def _code_of(path: str, lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of code in `lines`; all lines if the language is not known."""
    from pygments.lexers import find_lexer_class_for_filename
    from pygments.token import Comment, String

    lexer = find_lexer_class_for_filename(os.path.basename(path))
    if lexer is None:
        return lines
    no_comments = (Comment.Preproc, Comment.PreprocFile, Comment.Hashbang)
    text = "".join(
        value
        for kind, value in lexer().get_tokens("\n".join(lines))
        if kind in no_comments or not (kind in Comment or kind in String.Doc)
    )
    return [line.rstrip() for line in text.split("\n") if line.strip()]


SHOWN_FILES = 5
COMMAND_CHARS = 120


def verification_check(verification: Verification, most: int = 1) -> StopCheck:
    """Return a stop check for edited code that was not checked since, or whose check failed.

    It is silent if the final answer says so already.
    """

    def ask(info: TurnInfo) -> str:
        status = verification.status
        answer = final_words(info)
        if status not in ("red", "unverified") or reports_no_check(answer):
            return ""
        if verification.has_failed and reports_failure(answer):
            return ""
        command = f"`{one_line(verification.command, COMMAND_CHARS)}`"
        files = _files(verification.edited)
        if status == "red":
            return (
                f"You edited {files}, and the last check of it failed: {command}. Fix what broke "
                "and run it again. If it failed before your change already, say so and how you "
                "know."
            )
        earlier = f" ({command} failed before your last edit)" if verification.has_failed else ""
        return (
            f"You edited {files}, and nothing has run, built, tested or linted it since{earlier}. "
            "Run the check that fits. If there is none, or it cannot run here, say so and why."
        )

    return StopCheck(name="verifier", ask=ask, most=min(most, 1))


def _files(paths: Sequence[str]) -> str:
    # Shown as the model most likely wrote it: relative to the working folder.
    shown = [f"`{path.removeprefix(os.getcwd() + os.sep)}`" for path in paths[:SHOWN_FILES]]
    more = f" and {len(paths) - SHOWN_FILES} more" if len(paths) > SHOWN_FILES else ""
    return f"{', '.join(shown)}{more}"
