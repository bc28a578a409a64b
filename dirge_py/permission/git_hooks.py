"""The hooks of a repository that a git command would run: what a person is told before it does."""

import os
from collections.abc import Sequence

from dirge_py.permission.git_config import git_dir_of, setting
from dirge_py.permission.git_settings import Unreadable

_COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
_MOVED = ("post-checkout", "reference-transaction")
_HOOKS = {
    "commit": (*_COMMIT, "post-rewrite", "reference-transaction"),
    "merge": ("pre-merge-commit", *_COMMIT, "post-merge", "reference-transaction"),
    "pull": ("pre-merge-commit", *_COMMIT, "post-merge", "pre-rebase", *_MOVED),
    "push": ("pre-push", "reference-transaction"),
    "checkout": _MOVED,
    "switch": _MOVED,
    "worktree": _MOVED,
    "rebase": ("pre-rebase", *_COMMIT, "post-rewrite", *_MOVED),
    "cherry-pick": (*_COMMIT, *_MOVED),
    "revert": (*_COMMIT, *_MOVED),
    "am": ("applypatch-msg", "pre-applypatch", "post-applypatch", *_COMMIT),
    "gc": ("pre-auto-gc",),
}
_ALWAYS = ("fsmonitor-watchman", "post-index-change")
_MOST_NAMED = 8
EVERY_HOOK = tuple(sorted({*_ALWAYS, *(name for names in _HOOKS.values() for name in names)}))


def hooks_at(folder: str, words: Sequence[str]) -> str:
    """Words about the hooks that the git command `words` would run in `folder`, or ""."""
    try:
        git_dir = git_dir_of(folder)
        if git_dir is None:
            return ""
        chosen = setting(git_dir, "core.hookspath")
        base = os.path.dirname(git_dir) if os.path.basename(git_dir) == ".git" else folder
        where = os.path.join(base, os.path.expanduser(chosen)) if chosen else f"{git_dir}/hooks"
        names = [name for name in sorted(os.listdir(where)) if _runs(f"{where}/{name}", words)]
    except (OSError, Unreadable, UnicodeError, ValueError):
        return ""
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    shown = ", ".join(names[:_MOST_NAMED]) + more
    return f"it would run the hooks {shown}" + (f" of {where}" if chosen else "")


def _runs(path: str, words: Sequence[str]) -> bool:
    name = os.path.basename(path)
    wanted = [hooks for verb, hooks in _HOOKS.items() if verb in words[1:]]
    # Of a subcommand that is not listed nobody knows which it runs.
    if wanted and name not in _ALWAYS and not any(name in hooks for hooks in wanted):
        return False
    return "." not in name and os.path.isfile(path) and os.access(path, os.X_OK)
