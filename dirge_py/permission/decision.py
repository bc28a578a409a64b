"""Decisions as values: the effect, the policy behind it, every vote, and the session's log."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import one_line, truncate
from dirge_py.permission.facts import CallFacts
from dirge_py.permission.rules import Effect
from dirge_py.types.questions import AskedClaim
from dirge_py.types.tools import Claim, Operation, ShellCommand

Policy = Literal[
    "hard-deny", "deny-rule", "protected", "grant", "allow-rule", "ask-rule", "builtin", "mode",
    "default",
]  # fmt: skip
_STRICTNESS: dict[Effect, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One policy's vote on one claim."""

    claim: str
    """The claim, as `op resource`."""
    policy: Policy
    """The policy that voted."""
    effect: Effect | None
    """Its vote; None: it does not apply."""
    reason: str
    """Why, as text for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What may happen with one tool call."""

    effect: Effect
    """What may happen."""
    policy: str
    """The policy that decided."""
    reason: str
    """Why, as text for the user."""
    claims: tuple[AskedClaim, ...] = ()
    """The decision about each claim."""
    trace: tuple[TraceLine, ...] = ()
    """Every vote that was cast."""
    grant: tuple[str, ...] = ()
    """The exact rules that "allow for this session" stores; empty: it can be allowed only once."""
    wider: tuple[str, ...] = ()
    """Rules that cover similar calls, each as narrow as possible; empty if there are none."""
    widest: tuple[str, ...] = ()
    """Rules that cover still more calls; empty if there are none."""
    once_only: str = ""
    """Why no rule can be offered, or why only the exact one; "" if there are several."""
    wanted: tuple[str, ...] = ()
    """The allow rules that would have allowed it; empty: none could."""
    needs_hardening: bool = False
    """Whether a read-only command was allowed: it runs with `GIT_HARDENING`."""
    changes_git: bool = False
    """Whether it may write to the repository's own files once it is allowed."""
    only_looks: bool = False
    """Whether the call does nothing but run read-only commands."""
    is_read_only: bool = False
    """Whether all its commands are read-only, so that they can run restricted."""

    def as_json(self) -> dict[str, Any]:
        """Return the decision in the shape that `dirge why --json` prints."""
        return {
            **_named(self, "effect policy reason"),
            "claims": [_named(claim, "op resource effect policy reason") for claim in self.claims],
            "trace": [_named(line, "claim policy effect reason") for line in self.trace],
        }


def _named(record: object, fields: str) -> dict[str, Any]:
    """Return the values of these fields by their names."""
    return {name: getattr(record, name) for name in fields.split()}


def strictest(effects: Iterable[Effect]) -> Effect:
    """Return the effect that wins among several claims."""
    return max(effects, key=_STRICTNESS.__getitem__)


def uniform_decision(request: CallFacts, effect: Effect, policy: Policy, reason: str) -> Decision:
    """Return a decision that says the same about every claim."""
    names = [(fact.op, fact.resource) for fact in request.facts]
    return Decision(
        effect=effect,
        policy=policy,
        reason=reason,
        claims=tuple(
            AskedClaim(op=op, resource=name, effect=effect, policy=policy, reason=reason)
            for op, name in names
        ),
        trace=tuple(TraceLine(f"{op} {name}", policy, effect, reason) for op, name in names),
    )


def explain(decision: Decision, tool: str, input_text: str) -> str:
    """Return the decision as lines of text, for `/why` and `dirge why`: the verdict first.

    Policies that do not apply are left out; `as_json` has them all.
    """
    lines = [f"{decision.effect}: {decision.reason} [{decision.policy}]", f"{tool} {input_text}"]
    lines += _claim_lines(decision, decision.claims)
    if decision.grant:
        lines += ["", "for this session: " + ", ".join(f"`{rule}`" for rule in decision.grant)]
    if decision.wider:
        lines.append("or the like: " + ", ".join(f"`{rule}`" for rule in decision.wider))
    if decision.effect == "ask" and not decision.grant and not decision.wider:
        lines += ["", f"can be allowed only once: {decision.once_only}"]
    if decision.widest:
        lines.append("or more: " + ", ".join(f"`{rule}`" for rule in decision.widest))
    return "\n".join(lines)


def _claim_lines(decision: Decision, claims: Sequence[AskedClaim]) -> Iterator[str]:
    """Yield lines about the claims and the votes that apply."""
    votes: dict[str, list[TraceLine]] = {}
    for line in decision.trace:
        votes.setdefault(line.claim, []).append(line)
    for claim in claims:
        name = f"{claim.op} {claim.resource}"
        yield from ("", name, f"  → {claim.effect} [{claim.policy}]")
        if claim.real and claim.real != claim.resource:
            yield f"  leads to {claim.real}"
        for line in votes.get(name, ()):
            if line.effect:
                yield f"  {line.policy:<10} {line.effect:<5} {line.reason}".rstrip()


KEPT = 200
_MOST_TEXT = 2000
_MOST_CLAIMS = 32
_MOST_TRIED = 4
"""The most claims of a call that are kept in full, to be tried with other rules."""
_MOST_LISTED = 20
Result = Literal["allow", "deny", "defer", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDecision:
    """One decision of a session, as `/why` shows it."""

    number: int
    """Its position in the log, from 1."""
    call_id: str
    """The id of the tool call."""
    tool: str
    """The name of the tool."""
    effect: Result
    """The outcome of the call."""
    policy: str
    """The policy of the decision, or `answer` (from the user or `--on-ask`), `judge`, `loop-guard`,
    `earlier` (given while the run was stopped), `changed` (the call changed after the question)."""
    reason: str
    """Why, as text for the user."""
    claims: tuple[str, ...]
    """The claims, as `op:resource`."""
    digest: str
    """The hash that identifies the call, see `call_digest`."""
    text: str
    """Its explanation, with secrets removed."""
    tried: tuple[Claim, ...] = ()
    """The claims, unchanged, if the call asked and they are neither long nor secret."""
    family: tuple[str, ...] = ()
    """The wider rules of a call that was answered without storing them."""
    files: Mapping[str, str] | None = None
    """The files that the commands of a deferred call would run (`files_run`), if recorded."""

    def as_record(self) -> dict[str, Any]:
        return {
            **_named(self, "number call_id tool effect policy reason"),
            "claims": list(self.claims),
            **_named(self, "digest text"),
            **({"tried": list(map(_as_plain, self.tried))} if self.tried else {}),
            **({"family": list(self.family)} if self.family else {}),
            **({"files": dict(self.files)} if self.files is not None else {}),
        }


class DecisionLog:
    """The last `KEPT` decisions, numbered from 1 in the order they were made.

    `on_record` is called with every new one as plain values, to be stored with the session;
    `restore` loads those. `redact` is applied to all text that is kept.
    """

    def __init__(self, *, redact: Callable[[str], str] = lambda text: text) -> None:
        self.redact = redact
        self.on_record: Callable[[Mapping[str, Any]], None] = lambda record: None
        self._decisions: deque[PastDecision] = deque(maxlen=KEPT)

    def __iter__(self) -> Iterator[PastDecision]:
        return iter(self._decisions)

    def __len__(self) -> int:
        return len(self._decisions)

    def get(self, number: int) -> PastDecision | None:
        return next((one for one in self._decisions if one.number == number), None)

    def of_call(self, call_id: str) -> PastDecision | None:
        """Return the newest decision about a call."""
        return next((one for one in reversed(self._decisions) if one.call_id == call_id), None)

    def record(
        self,
        *,
        tool: str,
        call_id: str,
        digest: str = "",
        claims: Sequence[Claim] = (),
        decision: Decision,
        effect: Result,
        policy: str,
        reason: str,
        family: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
    ) -> PastDecision:
        """Record a decision about `claims` and its outcome; for the rest see `PastDecision`."""
        shown = _recorded_claims(decision)
        texts = [text for claim in claims for text in _as_plain(claim)]
        may_try = decision.effect == "ask" and len(claims) <= _MOST_TRIED
        may_try = may_try and all(self._redacted(text) == text for text in texts)
        number = self._decisions[-1].number + 1 if self._decisions else 1
        past = PastDecision(
            number=number,
            call_id=call_id,
            tool=tool,
            effect=effect,
            policy=policy,
            reason=self._redacted(reason),
            claims=(
                *(self._redacted(f"{one.op}:{one.resource}") for one in shown),
                *_left_out(decision),
            ),
            digest=digest,
            text=self._redacted(_explained(decision, effect, policy, reason), most=8 * _MOST_TEXT),
            tried=tuple(claims) if may_try else (),
            family=tuple(family) if all(self._redacted(rule) == rule for rule in family) else (),
            files=None if files is None else dict(files),
        )
        self._decisions.append(past)
        self.on_record(past.as_record())
        return past

    def restore(self, records: Sequence[Any]) -> None:
        """Load the decisions that an earlier process stored; unreadable ones are skipped."""
        self._decisions.extend(past for past in map(_restored, records) if past is not None)

    def _redacted(self, text: str, most: int = _MOST_TEXT) -> str:
        # Redact before cutting: half of a secret would not be recognized.
        return truncate(self.redact(text), most)


def call_digest(tool: str, claims: Sequence[Claim], arguments: Any = None) -> str:
    """Return a hash that identifies a call: its tool, its claims, and its arguments."""
    plain = list(map(_as_plain, claims))
    text = json.dumps([tool, plain, arguments], ensure_ascii=True, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _as_plain(claim: Claim) -> list[str]:
    if isinstance(claim.resource, ShellCommand):
        return [claim.op, claim.resource.text, claim.resource.cwd]
    return [claim.op, claim.resource]


def format_log(log: DecisionLog) -> str:
    """Return the newest decisions, one line each, the newest last."""
    newest = list(log)[-_MOST_LISTED:]
    if not newest:
        return "No decisions yet."
    rows = [
        f"{past.number:>4}  {past.effect:<5}  {past.tool}  {one_line('  '.join(past.claims), 60)}"
        f"  [{past.policy}]"
        for past in newest
    ]
    return "\n".join(["Decisions, newest last", *rows, "", "/why NUMBER explains one."])


def format_past_decision(past: PastDecision) -> str:
    """Return one decision with its explanation."""
    return f"{past.number}  {past.tool}\n{past.text}"


_WITHOUT_WORDS = {"answer": "that was the answer", "earlier": "decided while the run was stopped"}


def _explained(decision: Decision, effect: Result, policy: str, reason: str) -> str:
    # The reason for asking is not the reason why it was then allowed or denied.
    shown = _WITHOUT_WORDS.get(policy, reason) if reason == decision.reason else reason
    lines = [f"{effect}: {shown} [{policy}]"]
    if policy != decision.policy:
        lines.append(f"the rules said {decision.effect}: {decision.reason} [{decision.policy}]")
    lines += _claim_lines(decision, _recorded_claims(decision))
    return "\n".join([*lines, *_left_out(decision)])


def _recorded_claims(decision: Decision) -> Sequence[AskedClaim]:
    """Return the claims to record; of very many only some, first those that decided."""
    if len(decision.claims) <= _MOST_CLAIMS:
        return decision.claims
    return sorted(decision.claims, key=lambda one: one.effect != decision.effect)[:_MOST_CLAIMS]


def _left_out(decision: Decision) -> Sequence[str]:
    left_out = len(decision.claims) - _MOST_CLAIMS
    return [f"… and {left_out} more"] if left_out > 0 else []


def _restored(record: Any) -> PastDecision | None:
    texts = ("call_id", "tool", "policy", "reason", "digest", "text")
    match record:
        case {"number": int(number), "effect": effect, "claims": list(claims)} if (
            effect in get_args(Result) and all(isinstance(record.get(t), str) for t in texts)
        ):
            family, files = record.get("family"), record.get("files")
            shown = files.items() if isinstance(files, Mapping) else ()
            return PastDecision(
                number=number,
                effect=effect,
                claims=tuple(map(str, claims)),
                tried=_restored_claims(record.get("tried")),
                family=tuple(map(str, family)) if isinstance(family, list) else (),
                files={str(p): str(v) for p, v in shown} if isinstance(files, Mapping) else None,
                **{name: record[name] for name in texts},
            )
    return None


def _restored_claims(plain: Any) -> tuple[Claim, ...]:
    """Return the claims that `_as_plain` wrote; none if one of them cannot be read."""
    claims: list[Claim] = []
    for parts in plain if isinstance(plain, list) else ():
        match parts:
            case ["execute", str(text), str(cwd)]:
                claims.append(Claim("execute", ShellCommand(text, cwd)))
            case [str(op), str(name)] if op != "execute" and op in get_args(Operation):
                claims.append(Claim(cast(Operation, op), name))
            case _:
                return ()
    return tuple(claims)
