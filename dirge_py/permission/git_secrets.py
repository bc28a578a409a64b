"""Tracked secret files that a git command would show without naming them."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import escape

from dirge_py.lib.paths import is_below
from dirge_py.permission.facts import Place
from dirge_py.permission.git_config import tracked_secrets, work_tree_of
from dirge_py.permission.git_files import read_bytes
from dirge_py.permission.git_index import Tracked
from dirge_py.permission.git_settings import Unreadable
from dirge_py.permission.words import Word

_MAX_SECRET_BYTES = 1024 * 1024
_BLOB = re.compile(r"[0-9a-f]{4,64}")
_SHORT = frozenset(
    ("--name-only", "--name-status", "--stat", "--numstat", "--shortstat", "--summary", "--dirstat",
     "--raw", "--compact-summary", "--quiet", "--no-patch", "--check", "-s")
)  # fmt: skip
_LOG_PATCH = re.compile(r"--cc\Z|--color-words|--function-context\Z|-c\Z|-L")
_SPECIAL = re.compile(r"[*?\[\]\\]")
_PATCH = re.compile(r"--patch.*|-[a-zA-Z]*[puW][a-zA-Z]*|-U.*|--unified.*|--word-diff.*|--binary")


def shown_secrets(
    words: Sequence[Word], folder: str, place: Callable[[str], Place]
) -> Iterator[Place]:
    """The secrets that the git command `words` would show, run in the physical `folder`.

    `git diff` shows those that were changed and not staged; a blob may also be named by its id.
    What was committed or staged counts as shared already, unless the command names the folder that
    it is in: `git log -p -- cert`.
    """
    texts = [word.text for word in words[1:]]
    blobs = [blob for text in texts for blob in _BLOB.findall(text.lower())]
    compares = _compares_work_tree(texts)
    chosen = _folders_shown(texts, folder)
    if not blobs and not compares and not chosen:
        return
    for secret in tracked_secrets(folder):
        if any(secret.blob.startswith(blob) for blob in blobs):
            yield place(secret.path)
        elif compares and _is_meant(secret, texts[1:], folder) and _is_changed(secret):
            found, name = place(secret.path), os.path.relpath(secret.path, folder)
            why = f"{name} is changed and may hold secrets (`-- ':!{name}'` leaves it out)"
            yield replace(found, secret=found.secret and why)
        elif any(fnmatchcase(secret.path, pattern) for pattern in chosen):
            if _is_left_out(secret, texts, folder):
                continue
            found, name = place(secret.path), os.path.relpath(secret.path, folder)
            why = f"{name} is among the files named and may hold secrets"
            yield replace(found, secret=found.secret and why)


def _folders_shown(texts: Sequence[str], folder: str) -> Sequence[str]:
    """What a command that prints stored contents names, as patterns of absolute paths.

    Nothing for the physical `folder` that it runs in, for one above and for a bare `*`.
    """
    texts = [text for text in texts if text not in ("--no-pager", "-P")]
    if not _prints_stored(texts, folder):
        return ()
    found: list[str] = []
    for text in texts[1:]:
        base = work_tree_of(folder) if text.startswith(":/") else folder
        name = text.removeprefix(":/")
        path = os.path.normpath(os.path.join(base, name))
        if text.startswith("-") or (text.startswith(":") and not text.startswith(":/")):
            continue
        if not _SPECIAL.search(name):
            found += [] if is_below(folder, path) else [escape(path), f"{escape(path)}/*"]
        elif _SPECIAL.sub("", name).strip("./"):
            found.append(os.path.normpath(os.path.join(escape(base), name)))
    return found


def _prints_stored(texts: Sequence[str], folder: str) -> bool:
    """Whether it prints what is committed or staged, and not just how files differ from that."""
    if not texts or texts[0] not in ("log", "show", "diff"):
        return False
    words = texts[1 : texts.index("--")] if "--" in texts else texts[1:]
    is_short = texts[0] == "log" or any(text.partition("=")[0] in _SHORT for text in words)
    if is_short and not any(_PATCH.fullmatch(text) or _LOG_PATCH.match(text) for text in words):
        return False
    if texts[0] != "diff" or "--cached" in words or "--staged" in words:
        return True
    revisions = [text for text in words if not text.startswith("-")]
    return not all(os.path.lexists(os.path.join(folder, text)) for text in revisions)


def _is_left_out(secret: Tracked, texts: Sequence[str], folder: str) -> bool:
    left_out = (text[2:] for text in texts if text.startswith((":!", ":^")))
    paths = (os.path.normpath(os.path.join(folder, text)) for text in left_out)
    return any(is_below(secret.path, path) for path in paths)


def _compares_work_tree(texts: Sequence[str]) -> bool:
    """Whether it prints how files of the work tree differ from what is staged or committed."""
    texts = [text for text in texts if text not in ("--no-pager", "-P")]
    if not texts or texts[0] not in ("diff", "status"):
        return False
    options = texts[1 : texts.index("--")] if "--" in texts else texts[1:]
    if texts[0] == "status":
        return any(re.fullmatch(r"-[a-z]*v[a-z]*|--verbose", text) for text in options)
    if any(text in ("--cached", "--staged") for text in options):
        return False
    is_short = any(text.partition("=")[0] in _SHORT for text in options)
    return not is_short or any(_PATCH.fullmatch(text) for text in options)


def _is_meant(secret: Tracked, texts: Sequence[str], folder: str) -> bool:
    """Whether the files that the command names, if any, hold this one."""
    left_out = [text[2:] for text in texts if text.startswith((":!", ":^"))]
    if any(os.path.join(folder, text) == secret.path for text in left_out):
        return False
    if any(text[:2] in ("-S", "-G", "-I") for text in texts):
        return True  # the word behind it is no file
    named = [os.path.normpath(os.path.join(folder, text)) for text in texts if text[:1] != "-"]
    there = [path for path in named if os.path.lexists(path)]
    return not there or any(is_below(secret.path, path) for path in there)


def _is_changed(secret: Tracked) -> bool:
    try:
        content = read_bytes(secret.path, _MAX_SECRET_BYTES)
    except (OSError, Unreadable):
        return True
    digest = hashlib.sha1 if len(secret.blob) == 40 else hashlib.sha256
    blob = b"blob %d\0" % len(content) + content
    return digest(blob, usedforsecurity=False).hexdigest() != secret.blob
