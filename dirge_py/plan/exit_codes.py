"""Whether exit code 0 of a command line says that every check in it passed."""

import re
from collections.abc import Iterator
from itertools import pairwise

from dirge_py.permission.shell_lexer import MAX_BYTES, NotPlain, Part, lex, word_set

_FILTERS = word_set(
    "tail head tee cat less more sort uniq wc sed awk cut tr nl column grep egrep rg"
)
_QUIET = word_set("-q --quiet --silent -qx -qF -qE -Fq -Eq -qi -iq")
_BEFOREHAND = word_set(
    "cd export set unset source . umask ulimit pwd echo printf ls cat date mkdir touch rm cp ln mv"
    " which command type true :"
)
_SHELLS = word_set("sh bash zsh dash")

# What the strict reader refuses (substitutions, here-documents, loops) is only searched.
_COVERED = re.compile(
    r"\|\|(?!\s*(?:exit\s+[1-9]|false\b))"
    rf"|(?<!\|)\|(?!\|)&?\s*(?:{'|'.join(sorted(_FILTERS))})\b(?![^|;&\n]*\s-q)"
    r"|[;\n]\s*(?:true|:|echo|printf|exit)\b[^;&|\n]*\s*\Z"
    r"|(?<![&>])&\s*\Z"
)
_SUBSTITUTION = re.compile(r"\$\([^()]*\)")
_STRING = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_SHELL_WITHIN = re.compile(rf"\b(?:{'|'.join(sorted(_SHELLS))})\s+-\w*c\b")
_DOCUMENT = re.compile(r"(?<!<)<<-?\s*['\"\\]?(\w+)")


def hides_failures(command: str) -> bool:
    """Whether a check in `command` could have failed although all of it exits with 0.

    As in `pytest | tail`, `make test || true` and `pytest; echo done`. Guessed high: a line that
    cannot be read counts by what it looks like.
    """
    if len(command) > MAX_BYTES:
        return True
    try:
        parts = lex(command)
    except NotPlain:
        return bool(_COVERED.search(_outermost(command)))
    options = [option for part in parts if part.argv[0] == "set" for option in part.argv[1:]]
    keeps_pipes = "pipefail" in options
    stops_at_once = any(re.fullmatch(r"-\w*e\w*", option) for option in options)
    return any(map(hides_failures, _inner(parts))) or any(
        _is_covered(part, then, keeps_pipes=keeps_pipes, stops_at_once=stops_at_once)
        for part, then in pairwise(parts)
    )


def _is_covered(part: Part, then: Part, *, keeps_pipes: bool, stops_at_once: bool) -> bool:
    """Whether the exit code of `then` takes the place of that of `part`."""
    if then.joint == "&&":
        return False
    if then.joint == "||":
        return then.argv[0] != "false" and not re.fullmatch(r"exit [1-9]\d*", " ".join(then.argv))
    if part.argv[0] in _BEFOREHAND:
        return False
    if then.joint == "|":
        is_passed_on = then.argv[0] in _FILTERS and _QUIET.isdisjoint(then.argv)
        return is_passed_on and not keeps_pipes
    return not stops_at_once


def _inner(parts: tuple[Part, ...]) -> Iterator[str]:
    """The command lines that are given to shells, as in `bash -c 'make | tail'`."""
    for part in parts:
        for program, option, text in zip(part.argv, part.argv[1:], part.argv[2:], strict=False):
            if program in _SHELLS and re.fullmatch(r"-\w*c", option):
                yield text


def _outermost(command: str) -> str:
    """The command line without what substitutions, here-documents and strings hold."""
    kept: list[str] = []
    end = ""
    for line in command.split("\n"):
        if end:
            end = "" if line.strip() == end else end
            continue
        kept.append(line)
        found = _DOCUMENT.search(line)
        end = found[1] if found else ""
    text = _SUBSTITUTION.sub("$", "\n".join(kept))
    return text if _SHELL_WITHIN.search(text) else _STRING.sub("''", text)
