"""Questions that dirge asks the user, and the Protocols of the parts that answer them."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.tools import FileChange, Preview


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedClaim:
    """One claim and the decision about it."""

    op: str
    """The operation."""
    resource: str
    """The whole command, path or host; it is never cut."""
    effect: Literal["allow", "ask", "deny"]
    """The decision of the rules."""
    policy: str
    """The policy that decided."""
    reason: str
    """The reason, as text."""
    real: str | None = None
    """The physical path that a `read` or `edit` would open; None for other operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The effect that rules would have if they were stored, tried with this session's calls."""

    words: str
    """What they would allow, as text."""
    also: tuple[str, ...] = ()
    """Calls that dirge asked about and that would then run without asking, newest first."""
    still: tuple[str, ...] = ()
    """Calls of the same kind that dirge would still ask about, newest first."""


@dataclass(frozen=True, slots=True)
class RuleOffer:
    """Rules that an answer may store, and what they would allow."""

    rules: tuple[str, ...]
    """The rules (`op:pattern`), exactly as they are stored."""
    reach: Reach | None = None
    """What they would allow; None: unknown."""


TryRules: TypeAlias = Callable[[Sequence[str]], RuleOffer]
"""Returns the offer for rules that the user wrote. Raises DirgeError if one is not valid, or if
together they don't cover the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest:
    """A tool call that needs the user's permission."""

    call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    claims: tuple[AskedClaim, ...]
    """What the call would do."""
    offers: tuple[RuleOffer, ...] = ()
    """The rules that "allow for this session" may store, the narrowest first; empty when the call
    can be allowed only once."""
    no_wider: str = ""
    """Why there are no offers, or no wider one than the first; "" if there are several."""
    try_rules: TryRules | None = field(default=None, compare=False, repr=False)
    """Checks rules that the user wrote instead; None if no rule can be stored."""
    alike: int = 0
    """How many calls that the second offer covers were allowed one by one, if enough for a hint;
    else 0."""
    can_keep: bool = False
    """Whether the rules may also be written to the user's settings."""
    suggestion: str = ""
    """The `--allow` rule that would have allowed the call, for programs that can't ask."""
    warning: str = ""
    """The objection of an earlier check; empty if there is none."""
    preview: Preview | None = None
    """What to show besides the question; None if there is nothing."""
    command: str = ""
    """The command line that the call would run, if an answer may replace it; else ""."""
    cwd: str = ""
    """The folder the call would run in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAnswer:
    """The answer to one permission request."""

    effect: Literal["allow", "deny", "defer", "abort"]
    """Allow the call, deny it, defer it, or abort the run."""
    remember: Literal["once", "session", "always"] = "once"
    """How long `allow` holds: for this call, for the session, or always."""
    rules: tuple[str, ...] = ()
    """The rules to store if `remember` isn't "once"; empty: those of the first offer."""
    comment: str = ""
    """With `deny`: a message for the model."""
    command: str = ""
    """With `allow` of a request with a `command`: what to run instead, which is judged anew."""
    changes: tuple[FileChange, ...] | None = None
    """The preview's changes as the user edited them, one per edited file; None: all as shown."""


class Asker(Protocol):
    """Answers questions. A cancelled question must close its dialog."""

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """Return one answer per request, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOption:
    """One answer that is offered."""

    label: str
    """The answer."""
    description: str = ""
    """What the answer means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that the model asks the user."""

    question: str
    """The full question."""
    header: str = ""
    """The question in one or two words."""
    options: tuple[QuestionOption, ...] = ()
    """The answers that are offered."""
    is_multiple: bool = False
    """Whether several options may be chosen."""
    is_open: bool = True
    """Whether the user may also answer with text."""
    text_label: str = "in your own words"
    """What a front end that lists the answers calls the answer with text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswer:
    """The user's answer to one question."""

    chosen: tuple[str, ...] = ()
    """The labels of the chosen options, in the order offered."""
    text: str = ""
    """The text that the user typed."""


@runtime_checkable
class SupportsForms(Protocol):
    """An asker that reaches a user; the tool `question` is offered only with such an asker."""

    async def question(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        """Return one answer per question, in order; None if the user cancels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingFile:
    """A file of a project that would be read as settings, or run."""

    path: str
    """The path, relative to the project."""
    kind: str
    """What kind of file it is."""
    size: int
    """Its size in bytes."""
    sha256: str
    """The SHA-256 of its content."""
    state: Literal["new", "changed", "trusted"] = "new"
    """Whether it is new, changed since it was trusted, or trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustOffer:
    """A project and the files that are loaded from it if it is trusted."""

    project: str
    """The physical path of the project."""
    files: tuple[ActingFile, ...]
    """The files."""
    digest: str
    """One digest that stands for all files together."""


@runtime_checkable
class SupportsTrust(Protocol):
    """An asker who can decide whether to trust a project."""

    async def trust(self, offer: TrustOffer) -> bool:
        """Whether exactly these files are trusted. False leaves the project restricted."""
