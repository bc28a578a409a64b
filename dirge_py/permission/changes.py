"""Programs whose arguments are files they read, move or change; the files a question has to show.

Every file that a command reads, moves, copies, links or deletes is claimed as `read`, and as `edit`
where its name or content changes: a second name for a secret is as good as its content.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from dirge_py.permission.words import Word, listed

_CHANGES_ALL = listed("rmdir mkdir touch truncate tee")
_DELETES_ALL = listed("rm shred unlink")
_RENAMES_ALL = listed("rename prename file-rename mmv")
_COPIES_TO_LAST = listed("cp install ln link scp rsync")
_PACKS = listed("tar bsdtar zip 7z 7za cpio pax gzip bzip2 xz zstd lz4 gpg")
_CHANGES_AFTER_FIRST = listed("chmod chown chgrp")
_TARGET_FOLDER = re.compile(r"-[A-Za-z]*t.*|--t[a-z-]*(=.*)?")
"""`cp -t DIR a b`: the last operand is then a source, too."""

TURNS_SHELL = listed(
    "export declare typeset readonly local set unset shopt alias unalias source . eval exec trap"
    " enable hash builtin command pushd popd read mapfile readarray let getopts umask ulimit"
    " function return exit"
)
"""Builtins after which the next command of the same line may mean something else."""

FileUse: TypeAlias = tuple[Literal["read", "edit"], Word]


def changed_files(words: Sequence[Word]) -> Iterator[FileUse]:
    """The files a command would read, move or change, as far as its words tell."""
    if not words:
        return
    name = words[0].text.rsplit("/", 1)[-1]
    if name == "git" and len(words) > 1 and words[1].text in ("mv", "rm"):
        name, words = words[1].text, words[1:]
    operands = list(_operands(words[1:]))
    if name in _CHANGES_ALL:
        yield from (("edit", word) for word in operands)
    elif name in _DELETES_ALL or name in _RENAMES_ALL:
        yield from _read_and_edited(operands)
    elif name in _PACKS:
        yield from (("read", word) for word in operands)
    elif name in _CHANGES_AFTER_FIRST:
        yield from (("edit", word) for word in operands[1:])
    elif (name in _COPIES_TO_LAST or name == "mv") and operands:
        yield from _copied(words[1:], operands, moves=name == "mv")
    elif name == "dd":
        for word in operands:
            key, _, path = word.text.partition("=")
            if key in ("if", "of"):
                yield "read" if key == "if" else "edit", Word(path)


def _copied(words: Sequence[Word], operands: Sequence[Word], *, moves: bool) -> Iterator[FileUse]:
    names_target = any(_TARGET_FOLDER.fullmatch(word.text) for word in words)
    # `ln SECRET` alone makes a name in the current folder.
    has_target = len(operands) > 1
    sources = operands if names_target or not has_target else operands[:-1]
    yield from _read_and_edited(sources) if moves else (("read", word) for word in sources)
    # Which of them is the target nobody knows where an option names it.
    yield from (("edit", word) for word in (operands if names_target else operands[-1:]))


def _read_and_edited(words: Sequence[Word]) -> Iterator[FileUse]:
    for word in words:
        yield "read", word
        yield "edit", word


def _operands(words: Sequence[Word]) -> Iterator[Word]:
    is_open = True
    for word in words:
        if is_open and word.text == "--":
            is_open = False
        elif is_open and word.text.startswith("--target-directory="):
            yield Word(word.text.partition("=")[2], word.has_glob)
        elif word.text and not (is_open and word.text.startswith("-")):
            yield word
