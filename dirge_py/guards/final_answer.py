"""What a final answer says by its words: a question to the person, or that something went wrong.

Guesses, in English, for checks that would otherwise ask for what was already said.
"""

import re

from dirge_py.lib.lazy import late_pattern

_CODE = late_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)
_LIST_ITEM = late_pattern(r"\s*(?:[-*+•]|\(?\w{1,2}[.)])\s")
_QUESTION = late_pattern(r"(?<! )[?？؟](?=[\s\"'”’»)*_\]:]|$)")

# Words about more to come: who only announces the next step has not ended the task.
_ANNOUNCES = late_pattern(
    r"\b(?:let me(?! know)|let['’]s|(?:I['’]ll|I will|I am going to|I['’]m going to|next,? I))\b",
    re.IGNORECASE,
)

_NOT = r"(?:\bnot|\bnever|n['’]t|\bcannot|\bunable)"
_NOT_CHECKED = late_pattern(
    rf"{_NOT}(?:\s+(?:been|be|to|able|yet|actually|have|had|it|them|get|also))*"
    r"\s+(?:run|ran|test|tested|verify|verified|build|built|compiled?|executed?|checked|linted|tr(?:y|ied))\b"
    r"|\b(?:could|can|able)\s?(?:not|n['’]t)?(?:\s+to)?\s+check\b"
    r"|\bun(?:tested|verified|checked)\b"
    r"|\bwithout (?:running|testing|building|checking|verifying|compiling|a test)\b"
    r"|\bno (?!longer)(?:\w+ ){0,2}(?:tests?|test suite|checks?|linter|compiler|toolchain)\b"
    r"(?! (?:is |are )?(?:fail|broke))"
    r"|\bnothing to (?:run|test|build|check)\b"
    r"|\bnot (?:installed|available)\b|n['’]t (?:installed|available)\b",
    re.IGNORECASE,
)

_UNREAL_FAILURE = late_pattern(
    r"\b(?:no longer|nothing|none|never|not|no \w+|0|without|that|which|had|used to)"
    r"\s+(?:\w+\s+)?fail\w*|n['’]t (?:\w+ )?fail\w*|\b(?:fix|resolv|correct)(?:ed|es|ing)\b[^.\n]*",
    re.IGNORECASE,
)
_FAILURE = late_pattern(
    r"\bfail(?:s|ed)\b|\b(?:tests?|checks?|builds?|they|these|which|both|still|now) fail\b"
    r"|\b(?:is|are|still|keeps?|remains?|now) (?:failing|broken|red)\b"
    rf"|{_NOT}(?:\s+(?:yet|currently|be|been|to|able))*"
    r"\s+(?:pass|work|run|ran|build|compile|start|exist|found|find|read|write|written|open|appl(?:y|ied)"
    r"|edit|edited|fix|fixed|done|do|possible|allowed|installed|available|complete|create|change|reach)\b"
    r"|\btimed out\b|\bgave up\b|\bexit(?:s|ed)? (?:with )?(?:code |status )?[1-9]"
    r"|\b[1-9]\d* (?:\w+ )?(?:errors?|failures?|failed|failing)\b"
    r"|\b(?:is|are) (?:missing|gone|refused|denied|read-only)\b|\bno such\b"
    r"|\b(?:still|the same) (?:an? )?(?:\w+ )?errors?\b"
    r"|\bun(?:able|successful)\b|\bimpossible\b",
    re.IGNORECASE,
)


def asks_person(text: str) -> bool:
    """Whether the last words are a question; a list of choices may follow it."""
    blocks = [each.strip() for each in re.split(r"\n\s*\n", _prose(text)) if each.strip()]
    while len(blocks) > 1 and all(map(_LIST_ITEM.match, blocks[-1].split("\n"))):
        if _QUESTION.search(blocks[-1]):
            return True
        blocks.pop()
    return bool(blocks) and _QUESTION.search(blocks[-1]) is not None


def reports_failure(text: str) -> bool:
    """Whether an answer says that something failed or cannot be done, and stops there."""
    prose = _prose(text)
    return not _announces(prose) and _FAILURE.search(_UNREAL_FAILURE.sub("", prose)) is not None


def reports_no_check(text: str) -> bool:
    """Whether an answer says that its change was not checked, or cannot be, and stops there."""
    prose = _prose(text)
    return not _announces(prose) and _NOT_CHECKED.search(prose) is not None


def _prose(text: str) -> str:
    """Return the text without code and addresses."""
    return _CODE.sub("x", text).strip()


def _announces(prose: str) -> bool:
    last = re.split(r"(?<=[.!?])\s|\n", prose)[-1]
    return _ANNOUNCES.search(last) is not None
