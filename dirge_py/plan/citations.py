"""Which recorded commands a reviewer means when it names them."""

import re
from collections.abc import Iterator

from dirge_py.plan.evidence import Evidence, EvidenceLedger

_ID = re.compile(r"(?<!\w)E\d{1,9}(?!\w)")
_SPAN = re.compile(r"`+([^`\n]+)`+")
_PROMPT = re.compile(r"\A\$\s+")
_WITHIN_WORD = re.compile(r"[\w./-]")
_SHORTEST = 3

# Behind a command in a sentence. Anything else could be a further argument, of a command that
# was never run.
_REMARK = re.compile(
    r"\s*(?:\Z|[.!?](?!\w)|[→—–:,;()]|[-=]>)"
    r"|\s+(?:pass|succe|exit|ok|show|return|ran|run|was|is|and|gives|prints)"
)


class Citations:
    """Looks commands up in `ledger`, on the side of what this review ran on the files as they are.

    `current` has the last run of each of these commands: one that failed and passed later, passed.
    """

    def __init__(self, ledger: EvidenceLedger, *, tree: str, step: int) -> None:
        here = [item for item in ledger.of("review", step) if tree and item.tree == tree]
        self.current = {folded(item.command): item for item in here}
        self._any = {folded(item.command): item for item in ledger.items}
        self._by_id = {item.id: item for item in ledger.items}

    def cited(self, citation: str) -> list[Evidence]:
        """What is meant by an entry that is to be a command, or the id of one.

        The same command wins over those that hold what was written, and these over one that has a
        remark behind it.
        """
        text = folded(citation)
        for known in (self.current, self._any):
            if text in known:
                return [known[text]]
        if _ID.match(text):
            return self._by_ids(text)
        for known in (self.current, self._any) if len(text) >= _SHORTEST else ():
            longer = [item for command, item in known.items() if _holds(command, text)]
            if longer:
                return longer
        if "`" in text:
            return self._in_spans(text)
        return self._remarked(text, starts=True)

    def named(self, sentence: str) -> list[Evidence]:
        """What a sentence names: by id or between backticks, else as plain words, two at least."""
        text = folded(sentence)
        found = self._by_ids(text) + self._in_spans(sentence)
        return found or self._remarked(text, starts=False)

    def _by_ids(self, text: str) -> list[Evidence]:
        items = [self._by_id[each] for each in _ID.findall(text) if each in self._by_id]
        return [self.current.get(folded(item.command), item) for item in items]

    def _in_spans(self, text: str) -> list[Evidence]:
        spans = [folded(span) for span in _SPAN.findall(text)]
        found = [self.current.get(span, self._any.get(span)) for span in spans]
        return [item for item in found if item]

    def _remarked(self, text: str, *, starts: bool) -> list[Evidence]:
        for known in (self.current, self._any):
            found = [
                item
                for command, item in known.items()
                if (text.startswith(command) if starts else " " in command)
                and any(_REMARK.match(text, end) for end in _ends(text, command))
            ]
            if found:
                return found
        return []


def folded(text: str) -> str:
    """A command for comparison: without a prompt sign, backticks around it, and odd blanks."""
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == "`" and "`" not in bare.strip("`"):
        bare = bare.strip("`")
    return " ".join(_PROMPT.sub("", bare.strip()).split())


def _holds(command: str, text: str) -> bool:
    """Whether `text` is in it as words of their own: `test` is not in `pytest tests/`."""
    return any(not _WITHIN_WORD.match(command, end) for end in _ends(command, text))


def _ends(text: str, words: str) -> Iterator[int]:
    """Where `words` end in `text`, wherever they do not begin within a word."""
    start = text.find(words) if words else -1
    while start >= 0:
        if start == 0 or not _WITHIN_WORD.match(text[start - 1]):
            yield start + len(words)
        start = text.find(words, start + 1)
