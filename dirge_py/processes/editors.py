"""What takes the place of an editor for commands that nobody sits in front of.

Programs start the editor that the environment names and wait for it. A command of the model has no
terminal, so the stand-in answers at once: it keeps a message that git prepared (a merge, a revert,
`--amend`), and otherwise fails with words that say what to do instead.
"""

from collections.abc import Mapping

SCRIPT_NAME = "DIRGE_NO_EDITOR"
"""Holds the script, so that a program that shows the name of its editor shows a short one."""

_SCRIPT = """\
case "${1##*/}" in
COMMIT_EDITMSG|MERGE_MSG|SQUASH_MSG|TAG_EDITMSG|NOTES_EDITMSG)
  if sed "/^# -* >8 -*\\$/,\\$d" "$1" | grep -Eqv "^(#|[[:space:]]*\\$)"; then
    echo "There is no editor here: the prepared message is used. Use -m for another one." >&2
    exit 0
  fi
  echo "There is no editor here. Pass the message with -m, or in a file with -F." >&2;;
git-rebase-todo)
  echo "There is no editor here. To take the list of commits as it is, set" >&2
  echo "GIT_SEQUENCE_EDITOR=: for this command; to change it, a command that edits" >&2
  echo "the file it is given, such as GIT_SEQUENCE_EDITOR=\\"sed -i 2s/pick/fixup/\\"." >&2;;
*)
  echo "There is no editor here: $1 stays as it is." >&2
  echo "Give the text with an option (-m, -F) or write the file itself." >&2;;
esac
exit 1
"""
_EDITOR = f"""sh -c 'eval "${{{SCRIPT_NAME}:-exit 1}}"' no-editor"""
_EDITOR_NAMES = (
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GH_EDITOR",
    "HGEDITOR",
    "JJ_EDITOR",
    "KUBE_EDITOR",
    "SUDO_EDITOR",
    "SVN_EDITOR",
    "SYSTEMD_EDITOR",
)
_PAGER_NAMES = (
    "PAGER",
    "MANPAGER",
    "AWS_PAGER",
    "BAT_PAGER",
    "DELTA_PAGER",
    "GH_PAGER",
    "GIT_PAGER",
    "PSQL_PAGER",
    "SYSTEMD_PAGER",
)

UNATTENDED: Mapping[str, str] = {
    SCRIPT_NAME: _SCRIPT,
    **dict.fromkeys(_EDITOR_NAMES, _EDITOR),
    **dict.fromkeys(_PAGER_NAMES, "cat"),
}
"""Variables for a command without a person: no editor and no pager waits for a key."""
