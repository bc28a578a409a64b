case "${1##*/}" in
COMMIT_EDITMSG|MERGE_MSG|SQUASH_MSG|TAG_EDITMSG|NOTES_EDITMSG)
  if sed "/^# -* >8 -*\$/,\$d" "$1" | grep -Eqv "^(#|[[:space:]]*\$)"; then
    echo "There is no editor here: the prepared message is used. Use -m for another one." >&2
    exit 0
  fi
  echo "There is no editor here. Pass the message with -m, or in a file with -F." >&2;;
git-rebase-todo)
  echo "There is no editor here. To take the list of commits as it is, set" >&2
  echo "GIT_SEQUENCE_EDITOR=: for this command; to change it, a command that edits" >&2
  echo "the file it is given, such as GIT_SEQUENCE_EDITOR=\"sed -i 2s/pick/fixup/\"." >&2;;
*)
  echo "There is no editor here: $1 stays as it is." >&2
  echo "Give the text with an option (-m, -F) or write the file itself." >&2;;
esac
exit 1
