"""Git subcommands that may run without a question, each with its own list of options.

Excluded on purpose: `--output` (writes a file, in thirteen subcommands), `--ext-diff`,
`--textconv`, `--show-signature` and `%G…` (run programs), `--no-index` (reads anything), `-O`,
`--contents`, `--stdin` (read further files), `--submodule`, `--recurse-submodules` (enter other
repositories), `describe --dirty` and `--broken` (refresh the index), `tag --column` and
`%(describe)` (start another git), `--remerge-diff` (merges into the repository's own objects).
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase, translate
from glob import escape
from itertools import takewhile

from dirge_py.git.repository import UnreadableRepository, read_bytes, work_tree_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.paths import is_below, is_below_any
from dirge_py.lib.shell_lexer import Word
from dirge_py.permission.facts import ResolvedPath
from dirge_py.permission.git.files import Tracked
from dirge_py.permission.git.repository import tracked_secrets
from dirge_py.permission.program_options import NotReadOnly, Program, files_read, parse_options
from dirge_py.permission.protected import SECRET_NAMES, why_secret

_MOST_PATTERNS = 16
# `=?` also where git takes the next word as the value: not every version of it does.
_DIFF = (
    " patch no-patch raw compact-summary numstat shortstat cumulative summary name-only name-status"
    " no-color no-renames check full-index binary find-copies-harder pickaxe-all pickaxe-regex text"
    " ignore-cr-at-eol ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines"
    " function-context exit-code quiet no-ext-diff no-textconv no-prefix minimal patience histogram"
    " patch-with-stat patch-with-raw irreversible-delete no-relative default-prefix no-color-moved"
    " indent-heuristic no-indent-heuristic stat=? color=? color-moved=? word-diff=? color-words=?"
    " abbrev=? find-renames=? find-copies=? break-rewrites=? relative=? dirstat=? unified=?"
    " word-diff-regex=? diff-filter=? inter-hunk-context=? src-prefix=? dst-prefix=?"
    " diff-algorithm=? ws-error-highlight=? ignore-matching-lines=? skip-to=? rotate-to=?"
    " stat-width=? stat-count=? stat-name-width=? ignore-submodules=? anchored=?"
)
_LOG = Program("pusaRbwzWiEFPgcmt0n:S:G:L:I:U::M::C::B::D::X::", operands="revision",
    takes_numbers=True, long=_DIFF +
    " oneline graph all all-match invert-grep extended-regexp fixed-strings perl-regexp"
    " basic-regexp regexp-ignore-case merges no-merges first-parent reverse follow abbrev-commit"
    " no-abbrev-commit no-abbrev topo-order date-order author-date-order full-history"
    " simplify-by-decoration simplify-merges dense sparse ancestry-path left-right left-only"
    " right-only cherry-pick cherry-mark cherry boundary walk-reflogs no-decorate source parents"
    " children relative-date log-size no-notes not full-diff mailmap use-mailmap no-mailmap"
    " clear-decorations reflog cc no-diff-merges decorate=? branches=? tags=? remotes=? glob=?"
    " pretty=? notes=? no-walk=? show-notes=? max-count=? skip=? since=? after=? until=? before=?"
    " author=? committer=? grep=? format=? date=? encoding=? exclude=? decorate-refs=?"
    " decorate-refs-exclude=? min-parents=? max-parents=? diff-merges=? grep-reflog=?")  # fmt: skip
GREP = Program("aiIwvhHEGPFnlLzocpWqrA:B:C:e:m:", operands="revision", takes_numbers=True,
    lead=1, lead_options="e", long=
    "cached untracked text ignore-case word-regexp invert-match full-name extended-regexp"
    " basic-regexp perl-regexp fixed-strings line-number column files-with-matches name-only"
    " files-without-match null only-matching count heading break show-function function-context"
    " and or not all-match quiet no-color recursive no-recursive no-textconv color=? context=?"
    " after-context=? before-context=? max-count=? max-depth=? threads=?")  # fmt: skip
_SUBCOMMANDS = {
    "status": Program("sbvzu::", long=
        "short branch long verbose show-stash null ahead-behind no-ahead-behind renames"
        " no-renames no-column porcelain=? untracked-files=? ignored=? ignore-submodules=?"
        " find-renames=? column=?"),
    "diff": Program("pusaRbwzWcS:G:I:U::M::C::B::D::X::l::", operands="revision", long=
        "cached staged merge-base cc base ours theirs" + _DIFF),
    "log": _LOG,
    "show": _LOG,
    "branch": Program("arv", operands="text", needs="list", long=
        "all remotes verbose list show-current no-color no-abbrev ignore-case no-column"
        " contains= no-contains= merged= no-merged= points-at= sort=? format=? color=? column=?"
        " abbrev=?"),
    "tag": Program("lin::", operands="text", needs="l list", long=
        "list ignore-case no-column contains= no-contains= merged= no-merged= points-at= sort=?"
        " format=? color=?"),
    "rev-parse": Program("q", operands="revision", long=
        "show-toplevel git-dir git-common-dir absolute-git-dir show-prefix show-cdup verify"
        " quiet is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository"
        " symbolic symbolic-full-name all revs-only no-revs flags no-flags show-object-format"
        " show-superproject-working-tree short=? abbrev-ref=? branches=? tags=? remotes=?"
        " path-format=?"),
    "ls-files": Program("cdmosuktzvfix:", long=
        "cached deleted modified others ignored stage unmerged killed directory"
        " no-empty-directory eol exclude-standard full-name error-unmatch deduplicate abbrev=?"
        " exclude=? format=?"),
    "ls-tree": Program("rdtlz", operands="revision", long=
        "name-only name-status full-name full-tree long object-only abbrev=? format=?"),
    "blame": Program("bcltfnspweL:M::C::", operands="revision", long=
        "porcelain line-porcelain incremental show-email show-name show-number root first-parent"
        " show-stats score-debug color-lines color-by-age since=? date=? abbrev=? ignore-rev=?"),
    "shortlog": Program("nsecw::", operands="revision", long=
        "summary numbered email committer no-merges merges all first-parent group=? format=?"
        " since=? until=? after=? before=? author=? branches=? tags=? remotes=? max-count=?"),
    "describe": Program(operands="revision", long=
        "tags all long always contains exact-match first-parent debug abbrev=? match=? exclude=?"
        " candidates=?"),
    "merge-base": Program("a", operands="revision", long=
        "all octopus is-ancestor fork-point independent"),
    "grep": GREP,
    "rev-list": Program("n:", operands="revision", takes_numbers=True, long=
        "count all reverse merges no-merges first-parent left-right oneline abbrev-commit"
        " topo-order date-order boundary objects parents cherry-pick left-only right-only"
        " max-count=? skip=? since=? until=? after=? before=? author=? committer=? grep=?"
        " branches=? tags=? remotes=? pretty=? format=? abbrev=? disk-usage=?"),
    "show-ref": Program("qds", operands="text", long=
        "heads branches tags verify quiet head dereference exists hash=? abbrev=?"),
    "check-ignore": Program("qvn", "quiet verbose non-matching no-index"),
}  # fmt: skip
_VERBS = {
    "remote": {"": Program("v", "verbose", operands="none"),
               "get-url": Program(long="all push", operands="text", most=1)},
    "stash": {"list": Program("", "oneline format=? date=?", operands="none", takes_numbers=True)},
    "worktree": {"list": Program("vz", "porcelain verbose", operands="none")},
    "config": dict.fromkeys(("--get", "--get-all"), Program(operands="text", most=1)),
}  # fmt: skip
_REFUSED_VALUES = {
    r":\(": "it names files by a git pathspec",
    r".*%G": "the format `%G…` runs gpg",
    r".*%\(describe": "the format `%(describe)` starts another git",
    r"--ignore-submodules=(?!(?:all|dirty)\Z)": "git would run in the submodules",
    r"--diff-merges=(?:r|remerge)\Z": "to repeat a merge, git writes objects",
}
_SECRET_KEYS = ("extraheader", "token", "pass", "secret", "proxy", "apikey", "cookie")


def judge_git(arguments: Sequence[Word]) -> tuple[Word, ...]:
    """Return the files that a read-only git command names. Raises NotReadOnly if it is not one."""
    if arguments and arguments[0].text in ("--no-pager", "-P"):
        arguments = arguments[1:]
    if not arguments:
        raise NotReadOnly("it has no subcommand")
    name, rest = arguments[0].text, arguments[1:]
    if name == "--version" and not rest:
        return ()
    if any(word.has_glob and word.text[0] in "*?[" for word in rest) and name in _VERBS:
        raise NotReadOnly("a pattern could expand to a subcommand")
    row = _SUBCOMMANDS.get(name) or _verb_row(name, rest)
    if name in _VERBS and rest and row is not _VERBS[name].get(""):
        rest = rest[1:]
    given = parse_options(row, rest)
    _check_values(name, [word.text for word in rest])
    # `log -L 1,9:FILE` prints lines of a file that is no operand.
    ranges = [value.text for option, value in given.seen if option == "L" and value]
    lines_of = (Word(text.rpartition(":")[2]) for text in ranges if ":" in text)
    reads = (*files_read(row, given), *lines_of)
    patterns = [word.text for word in reads if _WILDCARD.search(word.text)]
    if len(patterns) > _MOST_PATTERNS:
        raise NotReadOnly(f"it has more than {_MOST_PATTERNS} patterns of file names")
    return (*reads, *(Word(name) for text in patterns for name in secrets_meant(text)))


def _verb_row(name: str, rest: Sequence[Word]) -> Program:
    verbs = _VERBS.get(name)
    if verbs is None:
        raise NotReadOnly(f"`git {name}` can change things (not a known read-only command)")
    verb = rest[0].text if rest else ""
    row = verbs.get(verb) or (verbs.get("") if verb.startswith("-") else None)
    if row is None:
        spelled = f"git {name} {verb}".rstrip()
        raise NotReadOnly(f"`{spelled}` can change things (not a known read-only command)")
    return row


def _check_values(name: str, texts: Sequence[str]) -> None:
    for pattern, why in _REFUSED_VALUES.items():
        if any(re.match(pattern, text, re.DOTALL) for text in texts):
            raise NotReadOnly(why)
    if name == "config" and any(word in text.lower() for text in texts for word in _SECRET_KEYS):
        raise NotReadOnly("the setting could contain a secret")


_ORDINARY = (
    "main.py", "index.js", "package.json", "config.yml", "config.yaml", "pyproject.toml",
    "README.md", "Makefile", "a", "src/main.c", "src/app.json", "src/app.yml", "src/app.yaml",
    "src/app.toml", "src/app.conf", "pom.xml", "src/app.backup", "README", "src/app.gpg",
)  # fmt: skip
_LONGEST_PATTERN = 256
_MOST_TAILS = 24
_WILDCARD = late_pattern(r"[*?\[\\]")


def secrets_meant(pattern: str) -> Iterator[str]:
    """Yield names of secret files that the pattern would match; none if it matches anything.

    Git compares it with stored files, which cannot be listed without running git.
    A pattern such as `*.json` means files of all kinds, and does not count. A pattern that is too
    long to be compared counts as a secret.
    """
    if not _WILDCARD.search(pattern):
        return
    bare = re.sub(r"[*?\[\]!^\\]", "", pattern)
    if bare and why_secret(f"/{bare}", ("/",)):
        yield bare
    # A star also stands for slashes: the text after it may be the whole name.
    pattern = re.sub(r"\*+", "*", pattern)
    starts = [found.start() for found in re.finditer(r"\*|/", pattern)]
    if len(pattern) > _LONGEST_PATTERN or len(starts) > _MOST_TAILS:
        yield next(iter(SECRET_NAMES))
        return
    texts = [pattern, *(pattern[start:] for start in starts)]
    for text in dict.fromkeys(text.lstrip("/") for text in texts):
        plain = re.sub(r"\\([^\]!^\\])", r"[\1]", text).replace("[^", "[!")
        try:
            expression = re.compile(translate(plain), re.IGNORECASE)
        except re.error:
            continue
        if not any(expression.match(name) for name in _ORDINARY):
            yield from (name for name in SECRET_NAMES if expression.match(name))


_MAX_SECRET_BYTES = 1024 * 1024
_BLOB = late_pattern(r"[0-9a-f]{4,64}")
_SHORT = frozenset(
    ("--name-only", "--name-status", "--stat", "--numstat", "--shortstat", "--summary", "--dirstat",
     "--raw", "--compact-summary", "--quiet", "--no-patch", "--check", "-s")
)  # fmt: skip
_LOG_PATCH = late_pattern(r"--cc\Z|--color-words|--function-context\Z|-c\Z|-L")
_PATHSPEC_MAGIC = late_pattern(r"[*?\[\]\\]")
_PATCH = late_pattern(r"--patch.*|-[a-zA-Z]*[puW][a-zA-Z]*|-U.*|--unified.*|--word-diff.*|--binary")


def shown_secrets(
    words: Sequence[Word], folder: str, place: Callable[[str], ResolvedPath]
) -> Iterator[ResolvedPath]:
    """Yield the secrets that the git command `words` would show, run in the physical `folder`.

    `git diff` shows secrets that were changed and not staged; a blob may also be named by its id.
    Secrets that were committed or staged count as already shared, unless the command names their
    folder: `git log -p -- cert`.
    """
    texts = [word.text for word in words[1:]]
    command = [text for text in texts if text not in ("--no-pager", "-P")]
    blobs = [blob for text in texts for blob in _BLOB.findall(text.lower())]
    compares = _compares_work_tree(command)
    chosen = _folders_shown(command, folder)
    if not blobs and not compares and not chosen:
        return
    # What stands before `--` names revisions.
    named = command[command.index("--") + 1 :] if "--" in command else command[1:]
    paths = (os.path.join(folder, text) for text in named if text[:1] != "-")
    names_files = any(map(os.path.lexists, paths))
    left_out = [os.path.normpath(os.path.join(folder, text)) for text in _left_out(texts)]
    for secret in tracked_secrets(folder):
        if any(secret.blob.startswith(blob) for blob in blobs):
            yield place(secret.path)
            continue
        name = os.path.relpath(secret.path, folder)
        is_meant = compares and _is_meant(secret, texts[1:], folder, names_files=names_files)
        if is_meant and _is_changed(secret):
            why = f"{name} is changed and may contain secrets (`-- ':!{name}'` leaves it out)"
        elif any(fnmatchcase(secret.path, pattern) for pattern in chosen) and not is_below_any(
            secret.path, left_out
        ):
            why = f"{name} is among the named files and may contain secrets"
        else:
            continue
        found = place(secret.path)
        yield replace(found, secret=found.secret and why)


def _folders_shown(texts: Sequence[str], folder: str) -> Sequence[str]:
    """Return what a command that prints stored contents names, as patterns of absolute paths.

    Empty for the physical `folder` that it runs in, for a folder above it, and for a bare `*`.
    """
    if not _prints_stored(texts, folder):
        return ()
    found: list[str] = []
    for text in texts[1:]:
        base = work_tree_of(folder) if text.startswith(":/") else folder
        name = text.removeprefix(":/")
        path = os.path.normpath(os.path.join(base, name))
        if text.startswith("-") or (text.startswith(":") and not text.startswith(":/")):
            continue
        if not _PATHSPEC_MAGIC.search(name):
            found += [] if is_below(folder, path) else [escape(path), f"{escape(path)}/*"]
        elif _PATHSPEC_MAGIC.sub("", name).strip("./"):
            found.append(os.path.normpath(os.path.join(escape(base), name)))
    return found


def _prints_stored(texts: Sequence[str], folder: str) -> bool:
    """Whether it prints committed or staged contents, and not just how files differ from them."""
    if not texts or texts[0] not in ("log", "show", "diff"):
        return False
    words = list(takewhile(lambda text: text != "--", texts[1:]))
    is_short = texts[0] == "log" or any(text.partition("=")[0] in _SHORT for text in words)
    if is_short and not any(_PATCH.fullmatch(text) or _LOG_PATCH.match(text) for text in words):
        return False
    if texts[0] != "diff" or "--cached" in words or "--staged" in words:
        return True
    revisions = [text for text in words if not text.startswith("-")]
    return not all(os.path.lexists(os.path.join(folder, text)) for text in revisions)


def _left_out(texts: Sequence[str]) -> list[str]:
    return [text[2:] for text in texts if text.startswith((":!", ":^"))]


def _compares_work_tree(texts: Sequence[str]) -> bool:
    """Whether it prints how files of the work tree differ from staged or committed ones."""
    if not texts or texts[0] not in ("diff", "status"):
        return False
    options = list(takewhile(lambda text: text != "--", texts[1:]))
    if texts[0] == "status":
        return any(re.fullmatch(r"-[a-z]*v[a-z]*|--verbose", text) for text in options)
    if any(text in ("--cached", "--staged") for text in options):
        return False
    is_short = any(text.partition("=")[0] in _SHORT for text in options)
    return not is_short or any(_PATCH.fullmatch(text) for text in options)


def _is_meant(secret: Tracked, texts: Sequence[str], folder: str, *, names_files: bool) -> bool:
    """Whether the files that the command names, if any, hold this one."""
    if any(os.path.join(folder, text) == secret.path for text in _left_out(texts)):
        return False
    if any(text[:2] in ("-S", "-G", "-I") for text in texts):
        return True  # The next word is not a file.
    named = [os.path.normpath(os.path.join(folder, text)) for text in texts if text[:1] != "-"]
    there = [path for path in named if os.path.lexists(path)]
    return not names_files or any(is_below(secret.path, path) for path in there)


def _is_changed(secret: Tracked) -> bool:
    try:
        content = read_bytes(secret.path, _MAX_SECRET_BYTES)
    except (OSError, UnreadableRepository):
        return True
    digest = hashlib.sha1 if len(secret.blob) == 40 else hashlib.sha256
    blob = b"blob %d\0" % len(content) + content
    return digest(blob, usedforsecurity=False).hexdigest() != secret.blob
