"""Git subcommands that may run unasked, each with its own list of options.

Left out on purpose: `--output` (writes a file, in thirteen subcommands), `--ext-diff`,
`--textconv`, `--show-signature` and `%G…` (run programs), `--no-index` (reads anything), `-O`,
`--contents`, `--stdin` (read further files), `--submodule`, `--recurse-submodules` (enter other
repositories), `describe --dirty` and `--broken` (refresh the index), `tag --column` and
`%(describe)` (start another git), `--remerge-diff` (merges into the repository's own objects).
"""

import re
from collections.abc import Sequence

from dirge_py.permission.git_pathspecs import is_pattern, secrets_meant
from dirge_py.permission.options import Program, Refused, files_read, program, read_options
from dirge_py.permission.words import Word

_MOST_PATTERNS = 16
_DIFF_LONG = (
    " patch no-patch raw compact-summary numstat shortstat cumulative summary name-only name-status"
    " no-color no-renames check full-index binary find-copies-harder pickaxe-all pickaxe-regex text"
    " ignore-cr-at-eol ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines"
    " function-context exit-code quiet no-ext-diff no-textconv no-prefix minimal patience histogram"
    " patch-with-stat patch-with-raw irreversible-delete no-relative default-prefix no-color-moved"
    " indent-heuristic no-indent-heuristic"
)
_DIFF_OPTIONAL = (
    " stat color color-moved word-diff color-words abbrev find-renames find-copies break-rewrites"
    " relative dirstat"
)
# Only with `=`: git takes the next word for some of these, but not in every version.
_DIFF_EQUALS = (
    " unified word-diff-regex diff-filter inter-hunk-context src-prefix dst-prefix diff-algorithm"
    " ws-error-highlight ignore-matching-lines skip-to rotate-to stat-width stat-count"
    " stat-name-width ignore-submodules anchored"
)
_LOG_LONG = (
    " oneline graph all all-match invert-grep extended-regexp fixed-strings perl-regexp"
    " basic-regexp regexp-ignore-case merges no-merges first-parent reverse follow abbrev-commit"
    " no-abbrev-commit no-abbrev topo-order date-order author-date-order full-history"
    " simplify-by-decoration simplify-merges dense sparse ancestry-path left-right left-only"
    " right-only cherry-pick cherry-mark cherry boundary walk-reflogs no-decorate source parents"
    " children relative-date log-size no-notes not no-walk full-diff mailmap use-mailmap"
    " no-mailmap clear-decorations reflog cc no-diff-merges"
)
_LOG_OPTIONAL = " decorate branches tags remotes glob pretty notes no-walk show-notes"
_LOG_EQUALS = (
    " max-count skip since after until before author committer grep format date encoding exclude"
    " decorate-refs decorate-refs-exclude min-parents max-parents diff-merges grep-reflog"
)

_LOG = program(
    "pusaRbwzWiEFPgcmt0",
    values="nSGLI",
    attached="UMCBDX",
    long=_DIFF_LONG + _LOG_LONG,
    long_optional=_DIFF_OPTIONAL + _LOG_OPTIONAL + _DIFF_EQUALS + _LOG_EQUALS,
    operands="revision",
    takes_numbers=True,
)

_SUBCOMMANDS = {
    "status": program(
        "sbvz",
        attached="u",
        long="short branch long verbose show-stash null ahead-behind no-ahead-behind renames"
        " no-renames no-column",
        long_optional="porcelain untracked-files ignored ignore-submodules find-renames column",
    ),
    "diff": program(
        "pusaRbwzWc",
        values="SGI",
        attached="UMCBDXl",
        long="cached staged merge-base cc base ours theirs" + _DIFF_LONG,
        long_optional=_DIFF_OPTIONAL + _DIFF_EQUALS,
        operands="revision",
    ),
    "log": _LOG,
    "show": _LOG,
    "branch": program(
        "arv",
        long="all remotes verbose list show-current no-color no-abbrev ignore-case no-column",
        long_values="contains no-contains merged no-merged points-at",
        long_optional="sort format color column abbrev",
        operands="text",
        needs="list",
    ),
    "tag": program(
        "li",
        attached="n",
        long="list ignore-case no-column",
        long_values="contains no-contains merged no-merged points-at",
        long_optional="sort format color",
        operands="text",
        needs="l list",
    ),
    "rev-parse": program(
        "q",
        long="show-toplevel git-dir git-common-dir absolute-git-dir show-prefix show-cdup verify"
        " quiet is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository"
        " symbolic symbolic-full-name all revs-only no-revs flags no-flags show-object-format"
        " show-superproject-working-tree",
        long_optional="short abbrev-ref branches tags remotes path-format",
        operands="revision",
    ),
    "ls-files": program(
        "cdmosuktzvfi",
        values="x",
        long="cached deleted modified others ignored stage unmerged killed directory"
        " no-empty-directory eol exclude-standard full-name error-unmatch deduplicate",
        long_optional="abbrev exclude format",
    ),
    "ls-tree": program(
        "rdtlz",
        long="name-only name-status full-name full-tree long object-only",
        long_optional="abbrev format",
        operands="revision",
    ),
    "blame": program(
        "bcltfnspwe",
        values="L",
        attached="MC",
        long="porcelain line-porcelain incremental show-email show-name show-number root"
        " first-parent show-stats score-debug color-lines color-by-age",
        long_optional="since date abbrev ignore-rev",
        operands="revision",
    ),
    "shortlog": program(
        "nsec",
        attached="w",
        long="summary numbered email committer no-merges merges all first-parent",
        long_optional="group format since until after before author branches tags remotes"
        " max-count",
        operands="revision",
    ),
    "describe": program(
        long="tags all long always contains exact-match first-parent debug",
        long_optional="abbrev match exclude candidates",
        operands="revision",
    ),
    "merge-base": program(
        "a", long="all octopus is-ancestor fork-point independent", operands="revision"
    ),
    "grep": program(
        "aiIwvhHEGPFnlLzocpWqr",
        values="ABCem",
        long="cached untracked text ignore-case word-regexp invert-match full-name"
        " extended-regexp basic-regexp perl-regexp fixed-strings line-number column"
        " files-with-matches name-only files-without-match null only-matching count heading break"
        " show-function function-context and or not all-match quiet no-color recursive"
        " no-recursive no-textconv",
        long_optional="color context after-context before-context max-count max-depth threads",
        operands="revision",
        lead=1,
        lead_options="e",
        takes_numbers=True,
    ),
    "rev-list": program(
        values="n",
        long="count all reverse merges no-merges first-parent left-right oneline abbrev-commit"
        " topo-order date-order boundary objects parents cherry-pick left-only right-only",
        long_optional="max-count skip since until after before author committer grep branches tags"
        " remotes pretty format abbrev disk-usage",
        operands="revision",
        takes_numbers=True,
    ),
    "show-ref": program(
        "qds",
        long="heads branches tags verify quiet head dereference exists",
        long_optional="hash abbrev",
        operands="text",
    ),
    "check-ignore": program("qvn", long="quiet verbose non-matching no-index"),
}

_VERBS = {
    "remote": {
        "": program("v", long="verbose", operands="none"),
        "get-url": program(long="all push", operands="text", most=1),
    },
    "stash": {
        "list": program("", long="oneline", long_optional="format date", operands="none",
                        takes_numbers=True),
    },
    "worktree": {"list": program("vz", long="porcelain verbose", operands="none")},
    "config": {
        "--get": program(operands="text", most=1),
        "--get-all": program(operands="text", most=1),
    },
}  # fmt: skip

_ENTERING = re.compile(r"--ignore-submodules=(?!(?:all|dirty)\Z).*", re.DOTALL)
_REMERGE = re.compile(r"--diff-merges=(?:r|remerge)")
_SECRET_KEYS = ("extraheader", "token", "pass", "secret", "proxy", "apikey", "cookie")


def judge_git(arguments: Sequence[Word]) -> tuple[Word, ...]:
    """The files a git command names, if it only looks.

    Raises:
        Refused: it could do more than look.
    """
    if arguments and arguments[0].text in ("--no-pager", "-P"):
        arguments = arguments[1:]
    if not arguments:
        raise Refused("it has no subcommand")
    name, rest = arguments[0].text, arguments[1:]
    if name == "--version" and not rest:
        return ()
    if any(word.has_glob and word.text[0] in "*?[" for word in rest) and name in _VERBS:
        raise Refused("a pattern could become a subcommand")
    row = _SUBCOMMANDS.get(name) or _verb_row(name, rest)
    if name in _VERBS and rest and row is not _VERBS[name].get(""):
        rest = rest[1:]
    given = read_options(row, rest)
    _check_values(name, [word.text for word in rest])
    # `log -L 1,9:FILE` prints lines of a file that is no operand.
    ranges = [value.text for option, value in given.seen if option == "L" and value]
    lines_of = (Word(text.rpartition(":")[2]) for text in ranges if ":" in text)
    reads = (*files_read(row, given), *lines_of)
    patterns = [word.text for word in reads if is_pattern(word.text)]
    if len(patterns) > _MOST_PATTERNS:
        raise Refused(f"it has more than {_MOST_PATTERNS} patterns of file names")
    return (*reads, *(Word(name) for text in patterns for name in secrets_meant(text)))


def _verb_row(name: str, rest: Sequence[Word]) -> Program:
    verbs = _VERBS.get(name)
    if verbs is None:
        raise Refused(f"`git {name}` is not on the list of subcommands that only look")
    verb = rest[0].text if rest else ""
    row = verbs.get(verb) or (verbs.get("") if verb.startswith("-") else None)
    if row is None:
        spelled = f"git {name} {verb}".rstrip()
        raise Refused(f"`{spelled}` is not on the list of subcommands that only look")
    return row


def _check_values(name: str, texts: Sequence[str]) -> None:
    if any(text.startswith(":(") for text in texts):
        raise Refused("it names files by a pattern of git's own")
    if any("%G" in text for text in texts):
        raise Refused("the format `%G…` runs gpg")
    if any("%(describe" in text for text in texts):
        raise Refused("the format `%(describe)` starts another git")
    if any(_ENTERING.fullmatch(text) for text in texts):
        raise Refused("git would run in the submodules")
    if any(_REMERGE.fullmatch(text) for text in texts):
        raise Refused("to show a merge anew, git writes objects")
    if name == "config" and any(word in text.lower() for text in texts for word in _SECRET_KEYS):
        raise Refused("the setting could hold a secret")
