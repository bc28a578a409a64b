"""The input: editor, history, completion and Vim's modes."""
