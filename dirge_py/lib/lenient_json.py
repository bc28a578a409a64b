"""Reads JSON objects with the slips that models make, if the text has only one reading.

Read are: trailing commas, single and typographic quotes, names without quotes, `True`, `False` and
`None`, comments, a code fence, tags or a sentence around the object, closing brackets too many, a
list around one object, the same object twice, an empty object beside another one, wrong escapes,
and quotes inside a text that were not escaped.

Everything else is refused: the whole text must belong to the reading, and nothing is guessed. The
caller has tried `json.loads` before. Time is linear in the length of the text.
"""

import json
import re
from typing import Any, Literal, NoReturn

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import truncate

_MOST_PARTS = 50_000
"""Longer texts of many small values are refused, because reading them would take seconds."""
_DEEPEST = 100
_LONGEST_AROUND = 2000
_LONGEST_PROSE = 400

_CLOSING_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "„": "“”", "‘": "’", "’": "’"}
_TYPOGRAPHIC = frozenset("“”„‘’")
_BODIES = {
    closing: late_pattern(rf"[^{closing}\\]*+(?:\\.[^{closing}\\]*+)*+", re.DOTALL)
    for closing in dict.fromkeys(_CLOSING_QUOTES.values())
}
_BLANK = late_pattern(r"[\s\ufeff]*+")
_COMMENT = late_pattern(r"//[^\n]*+|/\*.*?\*/|#[^\n]*+", re.DOTALL)
_MAY_BE_DATA = late_pattern(r"[\"{}\[\]“”]|'\s*:|,\s*\w+\s*:")
_LITERAL = late_pattern(
    r"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
    r"|true|false|null|True|False|None)(?![\w.$+#-])"
)
_PYTHON = {"True": True, "False": False, "None": None}
_BARE_WORD = late_pattern(r"[^\s,:{}\[\]\"']*+")
_OPENING = late_pattern(r"[{\[]")
_BARE_NAME = late_pattern(r"(?:[^\W\d]|\$)[\w.$-]*+")
_MARK = late_pattern(r"[{}\[\]:,\"'\n]")
_ESCAPE = late_pattern(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES_LINE_OR_SELF = late_pattern(r"\\[nrtu\\]")
_HALF_ESCAPE = late_pattern(
    r"(?<!\\)(?:\\\\)*"
    # The first half of a pair is a half escape too, whether or not part of the second is there.
    r"((?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?)\Z"
)
_DRIVE = late_pattern(r"[A-Za-z]:\\(?!\\)")
_ONLY_LITERAL = frozenset("cdghijklmpqswyzABCDEFGHIJKLMOPQRSTVWXYZ")
"""After a backslash these mean nothing in any language but regular expressions, TeX and Windows
paths, which want the backslash itself."""
_BESIDE_LITERAL = frozenset("bf .*+?()[]{}^$|-")
_IN_WINDOWS_PATHS = frozenset("bfuaevxoNU0123456789._-()[]{}$+ ")
_NO_MEANING = frozenset("'_")
"""Escaped by habit: by JavaScript's and Markdown's rules the backslash goes."""

_NAME = (
    r"(?:\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|'[^'\\]*+(?:\\.[^'\\]*+)*+'|[“”„][^“”]*+[“”]|‘[^’]*+’"
    r"|(?:[^\W\d]|\$)[\w.$-]*+)"
)
_MEMBER = rf"(?:{_NAME}\s*+(?::|\Z)|[\"'“”„‘][^\"'“”’]*+\Z|[}}\]]|\Z|//|/\*|\#)"
_ITEM = r"(?:[\"'“”„‘{\[}\]]|-?[0-9]|(?:true|false|null|True|False|None)\b|\Z|//|/\*|\#)"
_AFTER_MEMBER = late_pattern(
    rf"\s*+(?:\Z|//|/\*|\#|,\s*+{_MEMBER}"
    rf"|[}}\]][}}\]\s]*+(?:\Z|[{{;)`<]|,\s*+(?:{_MEMBER}|{_ITEM})))",
    re.DOTALL,
)
_AFTER_ITEM = late_pattern(r"\s*+(?:[,\]]|\Z|//|/\*|#)")
_ONLY_CLOSERS = late_pattern(r"\s*+[}\]]")
_QUOTED_PART = late_pattern(r"[\w<{(\[$@#~^!/](?:.*[\w>})\]/$!?.])?", re.DOTALL)
_ENDS_AT_OTHER_QUOTE = late_pattern(r'[^"]*+"\s*+[,:}\]]')
_APOSTROPHE = late_pattern(r"(?<=[A-Za-z])'(?=(?:s|t|re|ve|ll|d|m)\b)")

_FENCE_BEFORE = late_pattern(r"(?:```|~~~)[\w+-]*\s*\Z|`\s*\Z")
_FENCE_AFTER = late_pattern(r"\A\s*(?:```|~~~|`)")
_TAG = late_pattern(
    r"<[|｜][\w▁ ]{1,60}[|｜]>"
    r"|</?(?:tool_call|tool_calls|tool_use|tool_input|function_call|function|arguments|parameters"
    r"|input|json|invoke|s)>"
)
_ESCAPED = late_pattern(r"\s*\{(?:\s|\\[nrt])*\\\"")
_EXTRA_CLOSERS = late_pattern(r"\s*[}\]][}\]\s]*")
_LABEL = late_pattern(
    r"(?:the )?(?:tool |function )?(?:json|arguments?|args|kwargs|params|parameters|input"
    r"|tool_input|tool_args|call|tool_call|output|answer|result)",
    re.IGNORECASE,
)
_SENTENCE = late_pattern(r"(?:[^\W\d_]|['’_\s(),!?-]|[.](?=\s|\Z))*+")
_CONDITION = late_pattern(
    r"\b(?:not|never|no|none|nothing|only|but|except|unless|if|or|instead|without|with|plus|maybe"
    r"|dry|wait|cancel|stop|also|and|then|set|should|must|rather|false|true|null|use|using|flag"
    r"|option|mode|force|recursive(?:ly)?)\b|n['’]t\b"
    r"|[不别勿没无或]",
    re.IGNORECASE,
)
_STATEMENT = late_pattern(
    r"(?!(?:This|That|These|Those|It|Here|There|I|We|Let|Below|Sure|OK|Okay)\b).*"
    r"\b(?:is|are|be)\b",
    re.DOTALL | re.IGNORECASE,
)
"""It may say what an argument is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LenientReading:
    """What a text that is not quite JSON says, or why it cannot be read."""

    state: Literal["whole", "repaired", "closed", "cut_off", "malformed"]
    """Whether the text was JSON, was read in spite of slips, was read with its open ends closed,
    breaks off too early to be read, or has no reading or more than one."""
    value: Any = None
    """The value, as `json.loads` would return it, if the text was read."""
    slips: tuple[str, ...] = ()
    """What was wrong with the text that was read, each kind once: `trailing comma`, `comment`, …"""
    notes: tuple[str, ...] = ()
    """Sentences about what could have been meant differently."""
    problem: str = ""
    """Why the text was not read."""
    position: int = 0
    """Where the problem is, in characters."""


def read_object(text: str) -> LenientReading:
    """Read the one object in `text`."""
    reader = _Reader(text)
    try:
        value = reader.unescaped() if _ESCAPED.match(text) else reader.whole()
    except _Unreadable as error:
        return error.reading
    # What `json.loads` refuses without another slip has unusual spaces.
    slips = tuple(reader.slips) or (() if reader.is_closed else ("unusual space",))
    state: Literal["closed", "repaired"] = "closed" if reader.is_closed else "repaired"
    return LenientReading(state=state, value=value, slips=slips, notes=tuple(reader.notes))


def read_value(text: str) -> Any:
    """Return the object or list that `text` is, with nothing around it and nothing left open.

    Returns None if it cannot be read, or if something could have been meant differently.
    """
    reader = _Reader(text)
    try:
        value = reader.alone()
    except _Unreadable:
        return None
    return None if reader.is_closed or reader.notes else value


class _Unreadable(Exception):
    def __init__(self, reading: LenientReading) -> None:
        super().__init__(reading.problem)
        self.reading = reading


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: the order of names does not count, `1` is not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.slips: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.is_closed = False
        self._parts = 0
        self._has_escapes = False
        self._has_literal_backslashes = False
        self._has_inner_quotes = False
        self._ends_before_member = False

    # -- the text around the object

    def whole(self) -> Any:
        before = self._before()
        found: list[tuple[int, Any]] = []
        while not found or self._is_another():
            found.append((self.at, self._value(0)))
        after = self._without_tags(self.text[self.at :], _FENCE_AFTER).strip().lstrip(")").strip()
        is_remark = after[:1].isupper() and after[-1] in ".!?" and _is_sentence(after)
        if after and not (after.isascii() and is_remark):
            self._refuse("there is text after the object", self.at)
        value = self._one_of(found)
        self._check_backslashes()
        if self.is_closed and (len(found) > 1 or not value):
            # A truncated call must not become a call without arguments.
            self._refuse("the object is not complete", len(self.text), is_cut_off=True)
        if ignored := " … ".join(filter(None, (before, after))):
            self.slips["text around the object"] = None
            self.notes[f"ignored the text around the JSON object: {ignored!r}."] = None
        if self._has_inner_quotes and (ignored or "comment" in self.slips):
            self._refuse('a quote inside a text is not escaped (write `\\"`)', found[0][0])
        return value

    def unescaped(self) -> Any:
        """Return the object of a text that was escaped as a whole, as if it were in a string."""
        try:
            value = json.loads(json.loads(f'"{self.text.strip()}"', strict=False), strict=False)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            self._refuse('the quotes that delimit texts must not be escaped: write `"`', 0)
        self.slips["wrong escape"] = None
        return value

    def alone(self) -> Any:
        self._skip()
        value = self._value(0)
        self._skip()
        if self.at < len(self.text):
            self._refuse("there is text after the value", self.at)
        self._check_backslashes()
        return value

    def _before(self) -> str:
        """Move to the first bracket; return the sentence before it."""
        self._skip()
        begin = self.at
        if self.text.startswith('"', begin):
            is_open = _body_end(self.text, begin + 1, '"') == len(self.text)
            self._refuse("the arguments are not a JSON object", begin, is_cut_off=is_open)
        opening = _OPENING.search(self.text, begin)
        if opening is None:
            self._refuse("there is no JSON object", begin)
        self.at = opening.start()
        before = self._without_tags(self.text[begin : self.at], _FENCE_BEFORE)
        plain = before.strip()
        said = plain.rstrip(":=：(").rstrip()
        if not plain or _LABEL.fullmatch(said):
            return ""
        # Letters that are not ASCII may say anything; only a heading is clear.
        ends = before.rstrip(" ")[-1:]
        is_heading = ends in ":：" or (said.isascii() and ends in ".!\n")
        if not is_heading or not _is_sentence(said):
            self._refuse("there is text before the object", begin)
        return plain

    def _without_tags(self, text: str, fence: re.Pattern[str]) -> str:
        if len(text) > _LONGEST_AROUND:
            self._refuse("there is a long text around the object", self.at)
        bare = fence.sub("", text)
        if bare != text:
            self.slips["code fence"] = None
        plain = _TAG.sub(" ", bare)
        if plain != bare:
            self.slips["text around the object"] = None
        return plain

    def _is_another(self) -> bool:
        """Skip what may stand between two objects; return whether another one follows."""
        self._skip()
        if extra := _EXTRA_CLOSERS.match(self.text, self.at):
            if self._ends_before_member and "}" in extra.group():
                # Without an earlier brace, the properties behind it belong to the inner object.
                self._refuse("there is a closing brace too many", extra.start())
            self.at = extra.end()
            self.slips["extra closing bracket"] = None
            self._skip()
        if self.text.startswith((",", ";"), self.at):
            self.at += 1
            self.slips["trailing comma"] = None
            self._skip()
        return self.text.startswith("{", self.at)

    def _one_of(self, found: list[tuple[int, Any]]) -> Any:
        """Return the object that all the values are; empty ones do not count."""
        (_, value), *others = [each for each in found if each[1] != {}] or found[:1]
        for place, other in others:
            if not same_json(other, value):
                self._refuse("a second object follows, with other arguments", place)
        if len(found) > 1:
            self.slips["object twice"] = None
        if isinstance(value, list) and len(value) == 1:
            self.slips["list around the object"] = None
            value = value[0]
        if not isinstance(value, dict):
            self._refuse("the arguments are not one JSON object", found[0][0])
        return value

    # -- values

    def _value(self, depth: int, *, in_list: bool = False) -> Any:
        self._count()
        mark = self.text[self.at : self.at + 1]
        if depth and not mark:
            self.is_closed = True
            return None
        if depth and mark in _CLOSING_QUOTES:
            return self._string(in_list=in_list)
        if depth > _DEEPEST:
            self._refuse(f"it is nested more than {_DEEPEST} levels deep", self.at)
        return self._container(depth) if mark in ("{", "[") else self._literal()

    def _container(self, depth: int) -> dict[str, Any] | list[Any]:
        """Read a list or an object."""
        is_list = self.text[self.at] == "["
        closer, closing = ("]", "bracket") if is_list else ("}", "brace")
        items: list[Any] = []
        members: dict[str, Any] = {}
        value: Any = None
        self.at += 1
        self._skip()
        while self.at < len(self.text) and self.text[self.at] != closer:
            at, name = self.at, "" if is_list else self._name()
            self._ends_before_member |= not is_list and isinstance(value, dict)
            value = self._value(depth + 1, in_list=is_list)
            if is_list:
                items.append(value)
            elif name in members and not same_json(members[name], value):
                self._refuse(f"`{name[:60]}` has two different values", at)
            else:
                members[name] = value
            self._skip()
            if self.text.startswith(",", self.at):
                self.at += 1
                self._skip()
                if self.text.startswith(closer, self.at):
                    self.slips["trailing comma"] = None
            elif not self.text.startswith(closer, self.at) and self.at < len(self.text):
                self._refuse(f"a comma or a closing {closing} is missing", self.at)
        self.is_closed |= self.at == len(self.text)
        self.at = min(self.at + 1, len(self.text))
        return items if is_list else members

    def _literal(self) -> Any:
        match = _LITERAL.match(self.text, self.at)
        if match is None:
            end = _matched_end(_BARE_WORD, self.text, self.at)
            shown = self.text[self.at : min(end, self.at + 40)]
            problem = f"`{shown}` is not a JSON value" if shown else "a value is missing"
            self._refuse(problem, self.at, is_cut_off=end == len(self.text))
        self.at = match.end()
        written = match.group()
        if written in _PYTHON:
            self.slips["Python literal"] = None
            return _PYTHON[written]
        try:
            return json.loads(written)
        except ValueError:
            self._refuse("the number is too long", match.start())

    # -- texts

    def _name(self) -> str:
        """Read the name of a property, and the colon after it."""
        self._count()
        quote, begin = self.text[self.at], self.at + 1
        if quote not in _CLOSING_QUOTES:
            match = _BARE_NAME.match(self.text, self.at)
            if match is None:
                self._refuse("the name of a property is missing", self.at)
            self.at = match.end()
            self.slips["name without quotes"] = None
            name = match.group()
        else:
            end = _body_end(self.text, begin, _CLOSING_QUOTES[quote])
            if end == len(self.text):
                is_cut_off = not self._looks_ended()
                self._refuse("the name of a property is not closed", self.at, is_cut_off=is_cut_off)
            self.at = end + 1
            name = self._decoded(self.text[begin:end], quote, begin)
            if _MARK.search(name):
                problem = "the name of a property is not closed, or has marks of JSON in it"
                self._refuse(problem, begin)
        self._skip()
        if self.at == len(self.text):
            self._refuse("the object is not complete", self.at, is_cut_off=True)
        if self.text[self.at] != ":":
            self._refuse("a colon is missing after the name of a property", self.at)
        self.at += 1
        self._skip(only_blocks=True)
        return name

    def _string(self, *, in_list: bool) -> str:
        quote, begin = self.text[self.at], self.at + 1
        closing = _CLOSING_QUOTES[quote]
        end = _body_end(self.text, begin, closing)
        is_open = end == len(self.text)
        if not is_open and not self._can_end(end, closing, in_list=in_list):
            end = self._end_behind_quotes(begin, end, quote, in_list=in_list)
        body = self.text[begin:end]
        if is_open:
            self.is_closed = True
            if "\\" in body[-12:] and (half := _HALF_ESCAPE.search(body)):
                body = body[: half.start(1)]
            if body.rstrip().endswith(("}", "]")):
                # Its quote may be missing, too: then the bracket is not part of the text.
                self._refuse("a text is not closed", begin - 1, is_cut_off=True)
        self.at = min(end + 1, len(self.text))
        return self._decoded(body, quote, begin)

    def _can_end(self, end: int, closing: str, *, in_list: bool = False) -> bool:
        """Whether a text can end with the quote at `end`, judging by what follows."""
        if in_list:
            return _AFTER_ITEM.match(self.text, end + 1) is not None
        if _AFTER_MEMBER.match(self.text, end + 1):
            return True
        # Only brackets follow, and no other quote. Few places need the search from the end.
        only_closers = _ONLY_CLOSERS.match(self.text, end + 1) is not None
        return only_closers and max(map(self.text.rfind, closing)) == end

    def _end_behind_quotes(self, begin: int, first: int, quote: str, *, in_list: bool) -> int:
        """Return the only possible end of a text with quotes in it that were not escaped."""
        places: list[int] = []
        if not in_list and quote not in _TYPOGRAPHIC:
            self._count(self.text.count(quote, first))
            places = [each.start() for each in re.compile(quote).finditer(self.text, first)]
        ends = [place for place in places if self._can_end(place, quote)]
        body = self.text[begin : ends[0]] if len(ends) == 1 else "\\"
        inner = [place - begin for place in places if place < begin + len(body)]
        if "\\" in body or not _is_balanced(body, inner, quote):
            rest = self.text[first + 1 : first + 21]
            problem = f"a text ends here, but `{rest}` follows: escape quotes inside a text"
            self._refuse(f'{problem} (`\\"`), or add the missing comma', first + 1)
        self._has_inner_quotes = True
        self.slips["quote not escaped"] = None
        return ends[0]

    def _decoded(self, body: str, quote: str, begin: int) -> str:
        if quote != '"':
            self.slips["other quotes"] = None
            if _ENDS_AT_OTHER_QUOTE.match(body):
                self._refuse("a text begins and ends with different quotes", begin)
        if quote in _TYPOGRAPHIC and not _TYPOGRAPHIC.isdisjoint(body):
            self._refuse("typographic quotes delimit a text and are in it, too", begin)
        if "\\" not in body:
            return body
        decoded = _unescaped(body) if quote == '"' else None
        if decoded is None:
            self._count(body.count("\\"))
            escapes = set(_ESCAPE.findall(body))
            valid = set('"\\/bfnrt') | ({"'"} if quote == "'" else set())
            wrong = {each for each in escapes if each not in valid and len(each) == 1}
            if wrong and (_DRIVE.match(body) or not wrong.isdisjoint(_ONLY_LITERAL)):
                return self._with_literal_backslashes(body, escapes, begin)
            bare = _ESCAPE.sub("", body)
            for mark in sorted(wrong):
                is_bare = mark in bare or (mark == "_" and ("\n" in bare or "n" in escapes))
                if not wrong <= _NO_MEANING or is_bare or "\\\\" in body:
                    self._refuse_escape(wrong - _NO_MEANING or {mark}, begin)
                self.slips["wrong escape"] = None
                self.notes[f"`\\{mark}` was read as `{mark}`; a backslash is `\\\\` in JSON."] = (
                    None
                )
            decoded = _unescaped(re.sub(r'\\(.)|"', _as_json, body, flags=re.DOTALL))
        if decoded is None:
            self._refuse("a backslash is wrong: write `\\\\` for a backslash", begin)
        self._has_escapes |= _ESCAPES_LINE_OR_SELF.search(body) is not None
        return decoded

    def _with_literal_backslashes(self, body: str, escapes: set[str], begin: int) -> str:
        """Return a regular expression or a Windows path whose backslashes were not doubled."""
        beside = _IN_WINDOWS_PATHS if _DRIVE.match(body) else _BESIDE_LITERAL
        if unclear := escapes - _ONLY_LITERAL - beside:
            self._refuse_escape(unclear, begin)
        self._has_literal_backslashes = True
        self.slips["wrong escape"] = None
        shown = truncate(body, 80)
        self.notes[f"read `{shown}` with its backslashes; a backslash is `\\\\` in JSON."] = None
        return body

    def _check_backslashes(self) -> None:
        if self._has_literal_backslashes and self._has_escapes:
            self._refuse("some backslashes are single, others escape: write `\\\\` for each", 0)

    # -- steps

    def _skip(self, *, only_blocks: bool = False) -> None:
        """Move behind blanks and comments."""
        self.at = _matched_end(_BLANK, self.text, self.at)
        while comment := _COMMENT.match(self.text, self.at):
            self._count()
            said = comment.group()
            if _MAY_BE_DATA.search(said) or (only_blocks and not said.startswith("/*")):
                self._refuse("a comment may hold arguments", self.at)
            self.slips["comment"] = None
            self.at = _matched_end(_BLANK, self.text, comment.end())

    def _count(self, parts: int = 1) -> None:
        self._parts += parts
        if self._parts > _MOST_PARTS:
            problem = f"it has more than {_MOST_PARTS} parts, too many to repair"
            self._refuse(problem, self.at, is_cut_off=not self._looks_ended())

    def _looks_ended(self) -> bool:
        return self.text.rstrip()[-1:] in tuple("}])`>;.")

    def _refuse_escape(self, marks: set[str], position: int) -> NoReturn:
        self._refuse(f"`\\{min(marks)}` is unclear: write `\\\\` for a backslash", position)

    def _refuse(self, problem: str, position: int, *, is_cut_off: bool = False) -> NoReturn:
        state: Literal["cut_off", "malformed"] = "cut_off" if is_cut_off else "malformed"
        raise _Unreadable(LenientReading(state=state, problem=problem, position=position))


def _matched_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _body_end(text: str, begin: int, closing: str) -> int:
    """Return the position of the closing quote; the length of the text if there is none."""
    end = _matched_end(_BODIES[closing], text, begin)
    return end if text[end : end + 1] in tuple(closing) else len(text)


def _unescaped(body: str) -> str | None:
    """Return the text between two quotes of JSON; None if it is no JSON."""
    try:
        text: str = json.loads(f'"{body}"', strict=False)
    except ValueError:
        return None
    return text


def _is_sentence(said: str) -> bool:
    """Whether a text beside the object is a remark that neither holds nor changes arguments."""
    return (
        len(said) <= _LONGEST_PROSE
        and (len(said.split()) > 2 or not said.isascii())
        and _SENTENCE.fullmatch(said) is not None
        and _CONDITION.search(said) is None
        and _STATEMENT.match(said) is None
    )


def _is_balanced(body: str, inner: list[int], quote: str) -> bool:
    """Whether the inner quotes surround words, so that they do not delimit texts themselves."""
    if quote == "'" and len(_APOSTROPHE.findall(body)) == len(inner):
        return True
    if len(inner) % 2 or (body[0] == quote and body[-1] == quote):
        return False
    if re.match(rf"[^{{]*?{quote}[^{quote}{{]*+{quote}\s*+:", body):
        return False  # a name of the object around it, after a text that was not closed
    pairs = zip(inner[::2], inner[1::2], strict=True)
    parts = [body[opening + 1 : closing] for opening, closing in pairs]
    return all(
        _QUOTED_PART.fullmatch(part) and re.search(r"\w", part) and not part[0] == part[-1] == "/"
        for part in parts
    )


def _as_json(match: re.Match[str]) -> str:
    """Return an escape, or a bare double quote, as JSON writes it."""
    if match[1] is None:
        return '\\"'
    return match[1] if match[1] in _NO_MEANING else match[0]
