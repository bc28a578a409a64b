"""Questions the program asks a person, and the Protocols of whoever answers."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.tools import FileChange, Preview


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedClaim:
    """One claim as a person reads it. `resource` is the whole command, path or host, never cut."""

    op: str
    resource: str
    effect: Literal["allow", "ask", "deny"]
    policy: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What rules would let pass once they are stored, tried with the calls of this session.

    `words` say it of any call. `also` are calls that were asked about and would run unasked then,
    `still` those of the same kind that would be asked about all the same; the newest first.
    """

    words: str
    also: tuple[str, ...] = ()
    still: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest:
    """One tool call that may not run before somebody says so.

    `grant` are the rules (`op:pattern`) that "allow for this session" would store, exactly as
    stored; empty when this request cannot be granted for longer than once. `wider` are rules that
    would match more than this call (`execute:git push *`), where such a family makes sense.
    `grant_reach` and `wider_reach` tell what else they would let pass. `alike` is how many calls
    of the wider rules' kind were allowed one by one, once they are so many that the wider rules are
    worth a hint; else 0. `can_keep`: the rules may also be written to the person's own settings.
    `suggestion` is the `--allow` rule that would have allowed it, for those who cannot be asked.
    `warning` is what somebody who looked at the call first has against it.
    """

    call_id: str
    tool_name: str
    claims: tuple[AskedClaim, ...]
    grant: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()
    grant_reach: Reach | None = None
    wider_reach: Reach | None = None
    alike: int = 0
    can_keep: bool = False
    suggestion: str = ""
    warning: str = ""
    preview: Preview | None = None
    cwd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAnswer:
    """`allow` once, for the `session` or `always`; or `deny` with a comment for the model.

    `is_wide`: what is remembered are the request's `wider` rules. `changes` is what the person made
    of the preview's changes, one entry per file they touched; None: they took all as it was shown.
    """

    effect: Literal["allow", "deny", "defer", "abort"]
    remember: Literal["once", "session", "always"] = "once"
    is_wide: bool = False
    comment: str = ""
    changes: tuple[FileChange, ...] | None = None


class Asker(Protocol):
    """Answers questions. A cancelled question must take its own dialog down."""

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """One answer per request, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOption:
    """One answer that is offered."""

    label: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something the model wants to know. `header` is one or two words.

    `is_multiple`: several options may be chosen. `is_open`: words of one's own may be given, too.
    """

    question: str
    header: str = ""
    options: tuple[QuestionOption, ...] = ()
    is_multiple: bool = False
    is_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswer:
    """The labels that were chosen, in the order offered, and words of the person's own."""

    chosen: tuple[str, ...] = ()
    text: str = ""


@runtime_checkable
class SupportsForms(Protocol):
    """An asker behind whom a person sits: only with such a one is the tool `question` offered."""

    async def question(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        """One answer per question, in order; None if the person would rather not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingFile:
    """A file that a project brings along and that would act: be read as settings, or run.

    `path` is relative to the project. `state`: new, or changed since it was trusted.
    """

    path: str
    kind: str
    size: int
    sha256: str
    state: Literal["new", "changed", "trusted"] = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustOffer:
    """What would be loaded from `project` (a physical path) if it were trusted.

    `digest` stands for all of `files` together.
    """

    project: str
    files: tuple[ActingFile, ...]
    digest: str


@runtime_checkable
class SupportsTrust(Protocol):
    """Somebody who can be asked whether a project may bring its own things along."""

    async def trust(self, offer: TrustOffer) -> bool:
        """Whether exactly these files are trusted. False leaves the project restricted."""
