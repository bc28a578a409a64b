"""Finds the paths that a command's words could name, too many rather than too few, for deny rules.

`changed_files` claims each file that a program reads, moves, copies, links or deletes as `read`,
because a second name for a secret is as good as its content, and as `edit` if its name or content
changes.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Literal, TypeAlias

from dirge_py.git.repository import work_tree_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.paths import is_below
from dirge_py.lib.shell_lexer import Joint, Part, Word, word_set
from dirge_py.permission.blocklist import HOME_SIGN, with_home
from dirge_py.permission.facts import ResolvedPath
from dirge_py.permission.git.repository import git_dirs_of, git_hazard, is_bare_repository
from dirge_py.permission.launchers import PUTS_INTO
from dirge_py.permission.path_resolver import PathResolver
from dirge_py.permission.patterns import GLOB, GlobExpander, program_of
from dirge_py.permission.program_options import paths_behind_colons
from dirge_py.permission.recursive_reads import RecursiveRead, kept_beneath, possible_recursive_read
from dirge_py.permission.rules import PolicySet
from dirge_py.processes.programs import program_problem, remembered_closed_folders

_MAX_MENTIONS = 512
_MAX_FOLDERS = 16
_MAX_PATTERNS = 16
_LONGEST_NAME = 255
CWD_SIGN = late_pattern(r"\A(?:~\+|\$PWD|\$\{PWD[^}]*\})(?=/|\Z)")
_CWD = late_pattern(r"\A/+proc/+[^/]+/+cwd(?=/|\Z)")
_ROOT = late_pattern(r"\A(?:/+proc/+[^/]+/+root)+/*(?=/|\Z)")
_FILE_OF = late_pattern(r"(?:[^=]*=)?[@<](.+)|file:(?://(?:localhost)?(?=/))?(.+)", re.DOTALL)
_LETTERS = late_pattern(r"-[A-Za-z]{1,4}")


class ShellLookups:
    """The lookups for judging one command; all paths are absolute.

    They are cached, because a command often names the same places several times. `finds_secrets`:
    also below folders that the command searches.
    """

    def __init__(
        self,
        places: PathResolver,
        policy: PolicySet,
        *,
        roots: tuple[str, ...],
        home: str,
        finds_secrets: bool = True,
    ) -> None:
        # The git folder of a copy leads to that of the original.
        originals = [original for _copy, original in policy.anchors.copies]
        path = os.environ.get("PATH", os.defpath)
        self.roots = roots
        """The folders of the workspace."""
        self.home = home
        """The physical home folder."""
        self.own_paths = (*places.state, *places.settings)
        """The paths of dirge's own settings, keys and state."""
        self.place = cache(partial(places.find, is_bare=cache(is_bare_repository)))
        self.expand = GlobExpander().expand
        self.git_hazard = cache(
            lambda folder: git_hazard(folder, (*roots, *originals, *git_dirs_of(originals)))
        )
        self.program_problem = cache(
            lambda name: program_problem(name, path, remembered_closed_folders(roots, home))
        )
        find = partial(kept_beneath, places=places, policy=policy, roots=roots)
        self.kept_beneath = cache(find if finds_secrets else lambda search, cwd, start: ())


def mentioned_paths(
    words: Iterable[str], folders: Sequence[str], lookups: ShellLookups
) -> tuple[ResolvedPath, ...]:
    """Return every place that a word could name, also as an option's value or by a pattern."""
    pieces = (piece for word in dict.fromkeys(words) for piece in _pieces(word))
    named = [
        with_home(without_cwd_prefix(piece), lookups.home)
        for piece in _first_distinct(_MAX_MENTIONS, filter(_is_name, pieces))
    ]
    paths = _first_distinct(
        _MAX_MENTIONS, (os.path.join(folder, text) for text in named for folder in folders)
    )
    is_over = len(paths) > _MAX_MENTIONS
    patterns = [text for text in named if GLOB.search(text)]
    is_over = is_over or len(patterns) > _MAX_PATTERNS
    for folder in folders:
        for text in patterns[:_MAX_PATTERNS]:
            expanded = lookups.expand(folder, text)
            is_over = is_over or expanded is None
            paths.update(dict.fromkeys(expanded or ()))
    found = dict.fromkeys(lookups.place(path) for path in list(paths)[: 2 * _MAX_MENTIONS])
    return (*found, *([too_many_paths(lookups.place)] if is_over else ()))


_SEPARATORS = late_pattern(r"[=,:@]")
_MOST_SPELLED = 64


def words_to_spell(
    words: Sequence[Word], folders: Sequence[str], lookups: ShellLookups
) -> Iterator[tuple[int, str]]:
    """Yield the words that name a secret or something outside the workspace.

    With each comes the text that a rule's word has to begin with, so that no star covers it.
    """
    for at, word in enumerate(words):
        text = word.text
        # `--secret id=x,src=.env`, but not the address in `--url=https://x`
        pieces = [] if "://" in text else [one for one in _SEPARATORS.split(text) if one != text]
        places = mentioned_paths([text, *pieces[:_MOST_SPELLED]], folders, lookups)
        if any(place.secret for place in places):
            yield at, text
        elif not all(place.inside for place in places):
            start = text.find("/") + 1
            yield at, text if ".." in text or not start else text[:start]


def files_in_git_objects(
    commands: Iterable[Sequence[str]], folders: Sequence[str]
) -> Iterator[str]:
    """Yield paths in a repository that git commands could name, as `git cat-file HEAD:.env`.

    Relative to the top of the work tree; `HEAD:./.env` is relative to the physical `folders`.
    """
    for words in commands:
        if all(os.path.basename(word) != "git" for word in words):
            continue
        names = (word for word in words if "://" not in word)
        paths = [path.text for word in names for path in paths_behind_colons(Word(word))]
        tops = {work_tree_of(folder) for folder in folders} if paths else ()
        yield from paths
        yield from (os.path.join(top, path) for top in tops for path in paths)


def _first_distinct(most: int, texts: Iterable[str]) -> dict[str, None]:
    """Return the first distinct texts, at most `most` plus one."""
    found: dict[str, None] = {}
    for text in texts:
        found[text] = None
        if len(found) > most:
            break
    return found


def too_many_paths(place: Callable[[str], ResolvedPath]) -> ResolvedPath:
    """Return a place that stands for paths that were not looked up: no rule may allow it."""
    return replace(place("/"), protected="it names too many files to check")


def folders_entered(
    commands: Iterable[Sequence[str]], folders: Sequence[str], home: str
) -> list[str]:
    """Return the folders, and those that any `cd` in the commands might lead to from them."""
    entered = list(folders)
    for target in _cd_targets(commands, home):
        if target and len(entered) <= _MAX_FOLDERS:
            entered += [os.path.normpath(os.path.join(folder, target)) for folder in entered]
        else:
            entered += ["/", home]
        entered = _distinct(entered)
    return entered


def enters_unknown_folder(commands: Iterable[Sequence[str]], home: str) -> bool:
    """Whether a `cd` in the commands goes to an unknown folder."""
    return not all(_cd_targets(commands, home))


def _cd_targets(commands: Iterable[Sequence[str]], home: str) -> Iterator[str]:
    """Yield where each `cd` in the commands leads; "" if unknown."""
    for words in commands:
        for target in (words[1:] or ("~",)) if words[0] in MOVERS else ():
            # Paths cannot contain a null character, and file system calls reject it.
            text = HOME_SIGN.sub(lambda _: home, target).replace("\0", "")
            yield "" if text.startswith(("-", "$", "`")) else text


def without_cwd_prefix(word: str) -> str:
    """Return the word without a leading `$PWD`, `/proc/self/cwd` and the like."""
    return _ROOT.sub("", _CWD.sub(".", CWD_SIGN.sub(".", word, count=1)))


def _pieces(word: str) -> Iterator[str]:
    # `curl -d @file`, `-F name=@file`, `file:///file`
    if found := _FILE_OF.fullmatch(word):
        yield found.group(1) or found.group(2)
    if not word.startswith("-"):
        yield word
    yield word.partition("=")[2]
    letters = _LETTERS.match(word)
    for end in range(2, letters.end() + 1 if letters else 0):
        yield word[end:]
        if word[end : end + 1] == "@":
            yield word[end + 1 :]


def _is_name(piece: str) -> bool:
    # No file system accepts longer names.
    if not piece or "\0" in piece or len(piece) > 4096:
        return False
    return all(len(name) <= _LONGEST_NAME for name in piece.split("/"))


MOVERS = frozenset(("cd", "pushd", "popd"))
_MAX_POSSIBLE_FOLDERS = 8


class CwdTracker:
    """Tracks the working folder as bash does, without resolving links.

    `possible` are the folders that the current part may run in. `is_lost`: the folder is unknown;
    then `possible` also holds the root and the home folder, so that a destructive command there is
    still found.
    """

    def __init__(self, cwd: str, home: str, real: Callable[[str], str]) -> None:
        self.possible = [cwd]
        self.is_lost = False
        self._start = cwd
        self._home = home
        self._real = real
        self._before: list[str] = []

    @property
    def is_moved(self) -> bool:
        return self.possible != [self._start]

    def enter(self, joint: Joint) -> None:
        """Begin the next part. Only after `&&` is it certain that the last `cd` succeeded."""
        if joint not in ("&&", "|"):
            self.possible = _distinct([*self.possible, *self._before])

    def follow(self, part: Part, *, is_piped: bool) -> Sequence[str]:
        """Follow this `cd`; return the new folders, empty if they are unknown."""
        words = part.words[1:]
        resolve: Callable[[str], str] = os.path.normpath
        while words and words[0].text in ("-P", "-L"):
            resolve = self._real if words[0].text == "-P" else os.path.normpath
            words = words[1:]
        target, *further = words or (Word(self._home),)
        if is_piped or further or not target.text or target.has_glob or target.text[0] == "-":
            self.lose()
            return ()
        moved = _distinct(resolve(os.path.join(folder, target.text)) for folder in self.possible)
        if part.joint == "||":
            self.possible = _distinct([*self.possible, *moved])
        else:
            self._before = _distinct([*self._before, *self.possible])
            self.possible = moved
        if len(self.possible) + len(self._before) > _MAX_POSSIBLE_FOLDERS:
            self.lose()
            return ()
        return moved

    def lose(self, guesses: Iterable[str] = ()) -> None:
        """Record a change to an unknown folder, possibly one of `guesses`."""
        self.is_lost = True
        self.possible = _distinct([*self.possible, *self._before, "/", self._home, *guesses])


def _distinct(folders: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(folders))


_USES: Mapping[str, Sequence[Literal["read", "edit"]]] = {
    **dict.fromkeys(word_set("rmdir mkdir touch truncate tee chmod chown chgrp"), ("edit",)),
    **dict.fromkeys(word_set("rm shred unlink rename prename file-rename mmv"), ("read", "edit")),
    **dict.fromkeys(word_set("tar bsdtar zip 7z 7za cpio pax gzip bzip2 xz zstd"), ("read",)),
    **dict.fromkeys(("lz4", "gpg"), ("read",)),
}
_TAKES_MODE = word_set("chmod chown chgrp")
_COPIES_TO_LAST = word_set("cp install ln link scp rsync mv")
_TARGET_FOLDER = late_pattern(r"-[A-Za-z]*t.*|--t[a-z-]*(=.*)?")
"""Options like `cp -t DIR a b`: then the last operand is a source, too."""
TURNS_SHELL = word_set(
    "export declare typeset readonly local set unset shopt alias unalias source . eval exec trap"
    " enable hash builtin command pushd popd read mapfile readarray let getopts umask ulimit"
    " function return exit"
)
"""Builtins after which the next command of the same line may mean something else."""
_SED_IN_PLACE = late_pattern(r"-[a-zA-Z]*i|--in-place")
FileUse: TypeAlias = tuple[Literal["read", "edit"], Word]


def changed_files(words: Sequence[Word]) -> Iterator[FileUse]:
    """Yield the files that a command would read, move or change, as far as its words show."""
    if not words:
        return
    name = words[0].text.rsplit("/", 1)[-1]
    if name == "git" and len(words) > 1 and words[1].text in ("mv", "rm"):
        name, words = words[1].text, words[1:]
    operands = list(_operands(words[1:]))
    for word in operands[1:] if name in _TAKES_MODE else operands:
        yield from ((op, word) for op in _USES.get(name, ()))
    if name in _COPIES_TO_LAST and operands:
        names_target = any(_TARGET_FOLDER.fullmatch(word.text) for word in words[1:])
        # `ln SECRET` alone creates a link in the current folder.
        has_target = len(operands) > 1 and not names_target
        for word in operands[:-1] if has_target else operands:
            yield "read", word
            if name == "mv":
                yield "edit", word
        # If an option names the target, any operand may be a source.
        yield from (("edit", word) for word in (operands if names_target else operands[-1:]))
    elif name in ("sed", "gsed") and any(_SED_IN_PLACE.match(word.text) for word in words[1:]):
        has_option = any(word.text.startswith(("-e", "--e", "-f", "--f")) for word in words[1:])
        for word in operands if has_option else operands[1:]:
            yield from (("read", word), ("edit", word))
    elif name == "dd":
        for word in operands:
            key, _, path = word.text.partition("=")
            if key in ("if", "of"):
                yield "read" if key == "if" else "edit", Word(path)


def _operands(words: Sequence[Word]) -> Iterator[Word]:
    is_open = True
    for word in words:
        if is_open and word.text == "--":
            is_open = False
        elif is_open and word.text.startswith("--target-directory="):
            yield Word(word.text.partition("=")[2], word.has_glob)
        elif word.text and not (is_open and word.text.startswith("-")):
            yield word


_TAKES_WHOLE = word_set("rm mv unlink shred chmod chown chgrp")
_PATH_REST = r"(?![\w.-])[^\s'\"`();,:<>|&\]}]*"


def own_places_touched(
    commands: Iterable[Sequence[str]], folders: Sequence[str], text: str, lookups: ShellLookups
) -> tuple[ResolvedPath, ...]:
    """Return dirge's own places that these commands would touch if they run in the folders.

    `text` is the whole command line, because paths in the code of a script count, too.
    """
    running = [place for place in map(lookups.place, folders) if place.own]
    changed = [place for words in commands for place in _own_changed(words, folders, lookups)]
    return tuple(dict.fromkeys([*running, *changed, *_own_within(text, lookups)]))


def _own_changed(
    words: Sequence[str], folders: Sequence[str], lookups: ShellLookups
) -> Iterator[ResolvedPath]:
    name = program_of(words)
    if name not in _TAKES_WHOLE | PUTS_INTO:
        return
    operands = [one for one in words[1:] if not one.startswith("-")]
    targets = [word.text for op, word in changed_files(tuple(map(Word, words))) if op == "edit"]
    if name in PUTS_INTO:
        targets += [one.partition("=")[2] for one in words[1:] if one.startswith("--target")]
        targets += operands[-1:]
    for folder in folders:
        for target in targets:
            named = with_home(target, lookups.home)
            place = lookups.place(os.path.join(folder, named))
            if name in _TAKES_WHOLE:
                yield from _if_holding_own(place, lookups)
            if name in PUTS_INTO:
                yield from _own_replaced(place, operands, lookups)


def _own_replaced(
    folder: ResolvedPath, sources: Sequence[str], lookups: ShellLookups
) -> Iterator[ResolvedPath]:
    """Yield what copying or moving the sources into a folder would replace."""
    for source in sources:
        last = source.rstrip("/").rpartition("/")[2]
        # Only the contents of such a source are copied.
        if last in ("", ".", "..") or source.endswith("/"):
            yield from _if_holding_own(folder, lookups)
            continue
        inner = lookups.place(os.path.join(folder.asked, last))
        if inner.own or inner.forbidden:
            yield inner


def _if_holding_own(place: ResolvedPath, lookups: ShellLookups) -> Iterator[ResolvedPath]:
    # Removing all of the machine or the home folder is refused for another reason.
    is_whole = place.real in ("/", lookups.home)
    if not is_whole and any(is_below(one, place.real) for one in lookups.own_paths):
        yield replace(place, own=f"{place.asked} contains dirge's own settings or state")


def _own_within(text: str, lookups: ShellLookups) -> Iterator[ResolvedPath]:
    home = lookups.home
    for path in lookups.own_paths:
        spellings = [path]
        if is_below(path, home) and path != home:
            rest = path[len(home) :]
            spellings += [f"~{rest}", f"$HOME{rest}", f"${{HOME}}{rest}"]
        for spelled in spellings:
            for found in re.finditer(re.escape(spelled) + _PATH_REST, text):
                place = lookups.place(path + found.group()[len(spelled) :])
                if place.own or place.forbidden:
                    yield place


def withheld_from_searches(
    commands: Iterable[Sequence[str]],
    folders: Sequence[str],
    lookups: ShellLookups,
    *,
    guesses: Collection[str],
) -> Iterator[ResolvedPath]:
    """Yield the places that searches in the commands would read although reading them asks.

    `guesses` are those of the physical `folders` that stand for an unknown one: there, dirge's own
    places do not count.
    """
    for words in commands:
        search = possible_recursive_read(words)
        if search is None:
            continue
        for folder in folders:
            for start in _search_starts(search, folder, lookups):
                is_guess = folder in guesses and start == folder
                for place in lookups.kept_beneath(search, folder, start) or ():
                    yield replace(place, forbidden="") if is_guess else place


def _search_starts(search: RecursiveRead, folder: str, lookups: ShellLookups) -> Iterator[str]:
    """Yield the physical folders below which the search may read."""
    named = [with_home(without_cwd_prefix(word.text), lookups.home) for word in search.starts]
    paths = [os.path.join(folder, text) for text in named] or [folder]
    for text in named:
        if GLOB.search(text):
            paths += lookups.expand(folder, text) or ()
    reals = dict.fromkeys(lookups.place(path).real for path in paths)
    yield from filter(os.path.isdir, reals)
