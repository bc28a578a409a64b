"""Commands refused in every mode: fork bombs, and what destroys the machine, home or workspace."""

import fnmatch
import itertools
import os.path
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import upwards
from dirge_py.lib.shell_lexer import word_set
from dirge_py.permission.launchers import REMOVERS, find_starts
from dirge_py.permission.patterns import GLOB, program_of
from dirge_py.permission.protected import SYSTEM_FOLDERS

_NEVER_REMOVED = SYSTEM_FOLDERS | word_set(
    "/home /media /mnt /opt /root /run /snap /srv /var /Applications /Users /Volumes /private"
    " /usr/bin /usr/lib /usr/lib64 /usr/libexec /usr/local /usr/sbin /usr/share /var/lib"
    " /private/var"
)
_DISK_TOOLS = word_set(
    "fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mkswap mke2fs badblocks"
)
_MAKERS = ("mkfs.", "newfs")
"""Prefixes of the programs that make a file system."""
_LOOKS = {
    "fdisk": ("-l", "--list", "-x"), "sfdisk": ("-l", "--list", "-d", "--dump", "-J"),
    "gdisk": ("-l",), "sgdisk": ("-p", "--print", "-i"), "parted": ("-l", "--list", "print"),
    "wipefs": ("-n", "--no-act"), "badblocks": ("-s", "-v", "-sv"),
}  # fmt: skip
_ERASES = {
    "cryptsetup": ("luksFormat", "erase", "luksErase"), "nvme": ("format", "sanitize"),
    "hdparm": ("--security-erase", "--security-erase-enhanced", "--trim-sector-ranges"),
}  # fmt: skip
_CHANGES_ALL = word_set("chmod chown chgrp chattr setfacl chcon")
_WRITES_TO_LAST = word_set("cp mv install tee ln")
_LISTERS = word_set("find ls echo printf fd fdfind tree du")
_PACKERS = {
    **dict.fromkeys(("tar", "bsdtar", "gtar"), late_pattern(r"--remove-f[a-z]*")),
    "zip": late_pattern(r"-[A-Za-z]*m[A-Za-z]*|--move"),
    **dict.fromkeys(("7z", "7za", "7zz"), late_pattern(r"-sdel")),
}
_NARROWING = word_set("-name -iname -path -ipath -wholename -iwholename -regex -iregex -samefile")
_WIDENING = word_set("-o -or ! -not ,")
_REACH = 32
_MAX_STARTS = 20_000
_SOUND = late_pattern(
    r"/dev/(?:null|zero|full|u?random|std(?:in|out|err)|tty\w*|ptmx|cu\..*|(?:fd|shm|pts|snd|dri"
    r"|input|net|bus)(?:/.*)?|(?:video|i2c-?|spidev|gpiochip|hidraw)[\d.]*|kvm|fuse|kmsg|log)"
)
HOME_SIGN = late_pattern(r"(?:~|\$HOME|\$\{HOME[^}]*\})(?=/|\Z)")
_HERE_SIGN = late_pattern(r"(?:~\+|\$PWD|\$\{PWD\})(?=/|\Z)")
_PROC = late_pattern(
    r"/+proc/(?:self|thread-self|[^/]*[\d$*?\[][^/]*)/(?:task/[^/]+/)?(root|cwd)(?=/|\Z)"
)
_ANY_NAME = late_pattern(r"\.{0,2}(?:\?|\[[^\]]*\])*\*+|\.\[.*|\.\?\*?|\[[^\]]*\]\*?")
_UNSURE = late_pattern(r"\$\{[^}]*\}|\$[A-Za-z_]\w*|\$[0-9@*]|\$\(\)|`")
_NEVER_EMPTY = late_pattern(r"\$\{\w+:\?|\$\{\w+:-[^/}][^}]*\}|\$\{?(?:HOME|PWD)\b")


def with_home(text: str, home: str) -> str:
    """Return the text with the first sign for the home folder (`~`, `$HOME`) written out."""
    # A function, because `sub` would take a backslash in the folder's name as a group reference.
    return HOME_SIGN.sub(lambda _: home, text, count=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFolders:
    """The folders that commands might run in, and the folders that they must not destroy."""

    folders: Collection[str]
    """The folders the commands might run in."""
    home: str
    """The home folder."""
    roots: tuple[str, ...] = ()
    """The folders of the workspace."""


def why_destructive(
    commands: Sequence[Sequence[str]],
    where: CommandFolders,
    listed: Iterable[tuple[Sequence[str], Sequence[Sequence[str]]]] = (),
) -> str:
    """Return why these commands of one line must not run, or "".

    `listed` holds those that get the output of other commands as arguments, with these commands.
    """
    reasons = itertools.chain(
        (_of_one(words, where) for words in commands if words),
        (_of_a_list(words, listers, where) for words, listers in listed),
    )
    return next(filter(None, reasons), "") or _of_a_listed_device(commands)


def dangerous_if_empty(commands: Sequence[Sequence[str]], where: CommandFolders) -> str:
    """Return the path that would mean everything if a variable were empty (`rm -rf $X/`), or ""."""
    for words in commands:
        if program_of(words) not in REMOVERS | _CHANGES_ALL | {"mv"}:
            continue
        for word in words[1:]:
            if not _UNSURE.search(word) or _NEVER_EMPTY.search(word):
                continue
            emptied = _UNSURE.sub("", word)
            if emptied.startswith(("/", "~")) and _is_all(emptied, where):
                return word
    return ""


def dangerous_tails(words: Sequence[str]) -> list[Sequence[str]]:
    """Return the words after each possibly fatal program name, for text that cannot be parsed."""
    fatal = REMOVERS | _DISK_TOOLS | {"dd", "find", "mkfs"}
    names = (program_of([word]) for word in words)
    starts = (at for at, name in enumerate(names) if name in fatal or name.startswith(_MAKERS))
    found = (tuple(words[at : at + _REACH]) for at in starts)
    # Equal tails count once, so that repetitive text costs next to nothing.
    return list(dict.fromkeys(itertools.islice(found, _MAX_STARTS)))


def is_device(path: str) -> bool:
    """Whether `path` names a device other than harmless ones such as `/dev/null`."""
    normal = os.path.normpath(path)
    return normal.startswith("/dev/") and not _SOUND.fullmatch(normal)


def _of_one(words: Sequence[str], where: CommandFolders) -> str:
    name = program_of(words)
    operands = [word for word in words[1:] if word and not word.startswith("-")]
    template = f"`{name}` on {{}}"
    if name in REMOVERS or name in _CHANGES_ALL:
        is_deep = any(re.fullmatch(r"-[A-Za-z]*R[A-Za-z]*|--recursive", word) for word in words)
        if "--no-preserve-root" in words:
            return "`--no-preserve-root`"
        removes = name in REMOVERS
        return _first(template, operands, where, devices=removes) if removes or is_deep else ""
    if name == "dd":
        values = [word.partition("=")[2] for word in operands if word.startswith("of=")]
        return _device("`dd` on the device {}", values)
    if name in _DISK_TOOLS or name == "mkfs" or name.startswith(_MAKERS):
        return "" if _only_looks(name, words) else _first(template, operands, where, devices=True)
    if name in _ERASES and not set(_ERASES[name]).isdisjoint(words):
        return _first(template, operands, where, devices=True)
    if name == "mv":
        has_target = any(word.startswith(("-t", "--target-directory")) for word in words)
        moved = operands if has_target else operands[:-1]
        return _first(template, moved, where) or _device(template, operands)
    if name in _WRITES_TO_LAST:
        return _device(template, operands if name == "tee" else operands[-1:])
    if name == "find" and _deletes_all(words):
        return _first("`find` that deletes on {}", find_starts(words), where)
    if name == "rsync" and any(word.startswith("--del") for word in words):
        return _first("`rsync --delete` on {}", operands[-1:], where)
    if name in _PACKERS and any(map(_PACKERS[name].fullmatch, words)):
        return _first(f"`{name}` that removes {{}}", operands, _with_options_folder(words, where))
    return _git_clean(words, where) if name == "git" and "clean" in operands else ""


def _with_options_folder(words: Sequence[str], where: CommandFolders) -> CommandFolders:
    """Return `where` with the folders that `-C` leads to."""
    named = [words[at + 1] for at, one in enumerate(words[:-1]) if one in ("-C", "--directory")]
    homed = [with_home(one, where.home) for one in named]
    entered = [os.path.join(folder, one) for one in homed for folder in where.folders]
    return replace(where, folders=[*where.folders, *entered])


def _git_clean(words: Sequence[str], where: CommandFolders) -> str:
    at = words.index("clean")
    options = [word for word in words[at + 1 :] if word.startswith("-")]
    is_forced = any(re.fullmatch(r"-[A-Za-z]*f[A-Za-z]*|--force", word) for word in options)
    is_dry = any(re.fullmatch(r"-[A-Za-z]*n[A-Za-z]*|--dry-run", word) for word in options)
    # With an unknown folder, assume the repository that it is meant for.
    is_guess = {"/", where.home} <= set(where.folders)
    if not is_forced or is_dry or is_guess:
        return ""
    operands = [word for word in words[at + 1 :] if not word.startswith("-")]
    return _first("`git clean` of {}", operands or ["."], _with_options_folder(words[:at], where))


def _first(
    template: str, operands: Sequence[str], where: CommandFolders, *, devices: bool = False
) -> str:
    bad = (word for word in operands if (devices and is_device(word)) or _is_all(word, where))
    return next(map(template.format, bad), "")


def _device(template: str, operands: Iterable[str]) -> str:
    return next(map(template.format, filter(is_device, operands)), "")


def _only_looks(name: str, words: Sequence[str]) -> bool:
    if name == "wipefs" and not any(re.match(r"-\w*[ao]|--all|--offset", one) for one in words):
        return True
    is_writing = name == "badblocks" and any(re.match(r"-\w*[wn]", one) for one in words)
    return not is_writing and not set(_LOOKS.get(name, ())).isdisjoint(words)


def _deletes_all(words: Sequence[str]) -> bool:
    """Whether a `find` deletes everything it finds, not only files with certain names."""
    runs = itertools.chain.from_iterable(
        words[at + 1 :] for at, one in enumerate(words) if one.startswith(("-exec", "-ok"))
    )
    if "-delete" not in words and not any(_names_remover(one) for one in runs):
        return False
    names = (words[at + 1] for at, one in enumerate(words[:-1]) if one in _NARROWING)
    is_narrow = any(re.search(r"[A-Za-z0-9]", name) for name in names)
    return not is_narrow or not _WIDENING.isdisjoint(words)


def _names_remover(word: str) -> bool:
    return any(program_of([one]) in REMOVERS for one in re.split(r"[\s;&|]+", word))


_LISTED = late_pattern(r"\$\(\)|`|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\}")
"""Matches a word that is entirely the output of a command, directly or through a variable."""


def _of_a_list(
    words: Sequence[str], listers: Sequence[Sequence[str]], where: CommandFolders
) -> str:
    """Find removals of what another command lists: `find / | xargs rm`, `rm -rf $(ls -d /*)`."""
    if program_of(words) in ("xargs", "parallel"):
        is_fed = any(map(_names_remover, words))
    else:
        is_fed = program_of(words) in REMOVERS and any(map(_LISTED.fullmatch, words[1:]))
    for lister in listers if is_fed else ():
        name = program_of(lister)
        if name not in _LISTERS or (name == "find" and not _deletes_all((*lister, "-delete"))):
            continue
        starts = find_starts(lister) if name == "find" else lister[1:]
        if why := _first("a removal of all in {}", starts, where):
            return why
    return ""


def _of_a_listed_device(commands: Sequence[Sequence[str]]) -> str:
    """Find a `dd` that writes to another command's output, where a command names a device."""
    if not any(
        program_of(words) == "dd" and any(re.match(r"of=.*(?:\$\(\)|`)", one) for one in words)
        for words in commands
    ):
        return ""
    operands = (word for words in commands if program_of(words) != "dd" for word in words[1:])
    return _device("`dd` on the device {}", operands)


def _is_all(operand: str, where: CommandFolders) -> bool:
    """Whether `operand` is a folder that must not be destroyed, or everything in one."""
    target = with_home(operand, where.home) if operand[:1] in "~$" else operand
    target = _HERE_SIGN.sub(".", "/root" + target[5:] if target.startswith("~root") else target)
    paths = (_past_proc(os.path.join(at, target), at) for at in where.folders)
    return any(_must_stay(path, where) for path in dict.fromkeys(paths))


def _past_proc(path: str, cwd: str) -> str:
    """Return where a path through `/proc/PID/root` or `/proc/PID/cwd` leads."""
    while found := _PROC.match(path) or _PROC.match(os.path.normpath(path)):
        path = found.string
        start = "/" if found.group(1) == "root" else cwd
        # Stop at a path that leads through itself.
        cwd = "/"
        path = os.path.join(start, path[found.end() :].lstrip("/"))
    return os.path.normpath(path)


def _must_stay(path: str, where: CommandFolders) -> bool:
    names = [name for name in path.split("/") if name]
    while names and _ANY_NAME.fullmatch(names[-1]):
        names.pop()
    normal = "/" + "/".join(names)
    kept = (*upwards(where.home), *_NEVER_REMOVED)
    # A folder within another root of the workspace belongs to it, even if it is above this root.
    above = (takewhile(lambda one: one not in where.roots, upwards(r)[1:]) for r in where.roots)
    if normal == "/" or normal in kept or any(normal in folders for folders in above):
        return True
    if not GLOB.search(normal):
        return False
    parts = (one.strip("/").split("/") for one in kept)
    likely = (one for one in parts if len(one) == len(names))
    return any(all(map(fnmatch.fnmatchcase, one, names)) for one in likely)


# Every part starts at a fixed place and never backtracks, so that all text is read only once.
_NOT_RUN = late_pattern(
    r"\\.|'[^']*+'|\"(?:[^\"\\]|\\.)*+\"|(?<!\\\s)(?<![^\s;|&(){}])#[^\n]*+", re.DOTALL
)
_NAME = r"(?<![\w:.!-])([\w:.!-]++)\s*+"
_TOKEN = late_pattern(
    rf"{_NAME}(?:\(\s*+\)\s*+([{{(])|(\{{))|{_NAME}\|\s*+(?P<twice>\4)(?=[\s)]*+&)|[{{}}()]"
)
_CLOSED_BY = {"{": "}", "(": ")"}


def is_fork_bomb(text: str) -> bool:
    """Whether a function in `text` pipes itself into itself in the background."""
    open_brackets: list[tuple[str, str]] = []
    """The closing character of each open bracket, and the function whose body it opens."""
    bodies: Counter[str] = Counter()
    for found in _TOKEN.finditer(_NOT_RUN.sub(" ", text)):
        if found["twice"]:
            if bodies[found["twice"]]:
                return True
            continue
        bracket = found[2] or found[3] or found[0]
        if bracket in _CLOSED_BY:
            name = found[1] or ""
            open_brackets.append((_CLOSED_BY[bracket], name))
            bodies[name] += 1
        elif open_brackets and open_brackets[-1][0] == bracket:
            bodies[open_brackets.pop()[1]] -= 1
    return False
