"""The permission engine: looks up what claims refer to, then calls `decide`."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from dirge_py.files.workspace import Workspace
from dirge_py.lib.paths import is_below_any
from dirge_py.permission.decide import decide, effect_on
from dirge_py.permission.decision import Decision, DecisionLog, uniform_decision
from dirge_py.permission.facts import CallFacts, CommandFact, Fact, NameFact, PathFact, edits_files
from dirge_py.permission.path_resolver import PathResolver
from dirge_py.permission.patterns import quoted_path
from dirge_py.permission.protected import why_protected, why_secret
from dirge_py.permission.rules import Effect, Mode, PolicySet, Rule, anchored, parse_rule, permits
from dirge_py.types.errors import UsageError
from dirge_py.types.tools import Claim, PathLimit, ShellCommand

_LOG = logging.getLogger(__name__)
SimulatedCall: TypeAlias = Callable[[Sequence[Rule], Sequence[Rule]], Effect]
"""Returns the effect of a call with exactly these grants, and with these rules after all others."""


class PermissionEngine:
    """Judges claims by the rules, the mode and the grants of one session.

    `state_dirs` are dirge's own folders or files that nothing may touch in any mode, except to read
    below `own_output_dirs`; changing `settings` asks in any mode. Removing a file asks like editing
    a protected one if `workspace.originals` says that no snapshot holds it. Decisions use the file
    system but open no files except git's own, ignore files that a search obeys, and certificates.
    `denies_edits` names what denies editing files, also by commands; "" if nothing does.
    `denied_tools` maps the tools that are switched off to what switched them off (`prompt NAME`);
    `path_limits` name the only folders that may be read or changed, except to read below
    `own_output_dirs`, and hold in every mode;
    `history` holds the past decisions for `/why`; `home` is the physical home folder.
    """

    def __init__(
        self,
        workspace: Workspace,
        policy: PolicySet,
        *,
        state_dirs: Sequence[Path | str] = (),
        settings: Sequence[Path | str] = (),
        own_output_dirs: Sequence[Path | str] = (),
        home: Path | str | None = None,
    ) -> None:
        self.history = DecisionLog()
        self.denied_tools: Mapping[str, str] = {}
        self.denies_edits = ""
        self.path_limits: Sequence[PathLimit] = ()
        self._workspace = workspace
        self.home = os.path.realpath(os.fspath(home or Path.home()))
        self._places = PathResolver(
            workspace,
            state_dirs=state_dirs,
            settings=settings,
            own_output_dirs=own_output_dirs,
            home=self.home,
        )
        own = (workspace.cwd, os.path.realpath(workspace.cwd), *workspace.roots)
        folders = tuple(dict.fromkeys((*own, *policy.anchors.folders)))
        anchors = replace(policy.anchors, folders=folders, home=self.home)
        self._policy = replace(policy, anchors=anchors)

    @property
    def mode(self) -> Mode:
        return self._policy.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._policy = replace(self._policy, mode=mode)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._policy.rules

    def add_rule(self, rule: str, source: str) -> Rule:
        """Allow what `rule` (`op:pattern`) matches, as a setting does. Raises UsageError."""
        added = parse_rule(rule, "allow", source=source)
        if added not in self.rules:
            self._policy = replace(self._policy, rules=(*self.rules, added))
        return added

    @property
    def opens_network(self) -> bool:
        """Whether a rule or grant allows sandboxed commands every host; no mode alone does."""
        policy = self._policy
        rules = policy.rules + policy.project_rules
        about = [rule for rule in rules if rule.op in ("network", "*")]
        if policy.mode == "plan" or any(rule.effect != "allow" for rule in about):
            return False
        anyone = NameFact("network", "any host")
        return any(permits(rule, anyone, policy.anchors) for rule in (*about, *policy.grants))

    @property
    def grants(self) -> tuple[Rule, ...]:
        """Return what was allowed for this session, oldest first."""
        return self._policy.grants

    def add_grant(self, rule: str) -> Rule:
        """Allow what `rule` (`op:pattern`) matches for this session. Raises UsageError."""
        grant = parse_rule(rule, "allow", source="this session")
        if grant not in self.grants:
            self._policy = replace(self._policy, grants=(*self.grants, grant))
        return grant

    def why_ineffective(self, rule: str) -> str:
        """Return why allowing what `rule` matches has no effect, or "". Raises UsageError."""
        parsed = parse_rule(rule, "allow")
        if parsed.op not in ("read", "edit"):
            return ""
        look = why_protected if parsed.op == "edit" else why_secret
        last = parsed.pattern.rsplit("/", 1)[-1]
        # A star in the last name may stand for a name that is not protected, as `.env.example`.
        if parsed.op == "read" and last.startswith(".env") and any(c in last for c in "*?"):
            return ""
        reasons = [
            f"{one} is dirge's own state or keys"
            if is_below_any(one, self._places.state)
            else f"{one} belongs to dirge's own settings"
            if parsed.op == "edit" and is_below_any(one, self._places.settings)
            else look(one, self._workspace.roots)
            for one in anchored(parsed.pattern, self._policy.anchors)
        ]
        return reasons[0] if all(reasons) else ""

    def remove_grant(self, index: int) -> Rule:
        """Remove the grant at `index` (from 0). Raises UsageError if there is no such grant."""
        if not 0 <= index < len(self.grants):
            raise UsageError(
                f"there is no session rule {index}.",
                hint=f"This session has {len(self.grants)} rules.",
            )
        grants = list(self.grants)
        removed = grants.pop(index)
        self._policy = replace(self._policy, grants=tuple(grants))
        return removed

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the physical folders of the workspace, the start folder first."""
        return self._workspace.roots

    def add_folder(self, folder: Path | str) -> str:
        """Add `folder` to the workspace; return its physical path. Raises FileError."""
        real = self._workspace.add_root(folder)
        anchors = self._policy.anchors
        folders = tuple(dict.fromkeys((*anchors.folders, real)))
        self._policy = replace(self._policy, anchors=replace(anchors, folders=folders))
        return real

    def decide(
        self, claims: Sequence[Claim], cwd: str | None = None, *, tool: str = ""
    ) -> Decision:
        """Decide about a call of `tool`. Never raises: a claim that cannot be judged asks."""
        self._refresh_policy()
        by = self._denied_by(tool, claims)
        try:
            request = self._request(claims, cwd or self._workspace.cwd)
            if not by:
                beyond = self._beyond_limits(request)
                if beyond:
                    return uniform_decision(request, "deny", "deny-rule", beyond)
                return self._without_edits(request, decide(request, self._policy), claims)
        except Exception as error:
            _LOG.exception("a claim could not be judged")
            names = ((one.op, str(getattr(one.resource, "text", one.resource))) for one in claims)
            request = CallFacts(tuple(NameFact(op, name) for op, name in names))
            if not by:
                reason = f"dirge cannot analyze it: {error!r}"
                return uniform_decision(request, "ask", "default", reason)
        reason = f"{by} does not let `{tool}` be used"
        return uniform_decision(request, "deny", "deny-rule", reason)

    def _without_edits(
        self, request: CallFacts, decision: Decision, claims: Sequence[Claim]
    ) -> Decision:
        """Deny commands that edit while `denies_edits`; ask about what only a mode allows."""
        is_command = any(isinstance(claim.resource, ShellCommand) for claim in claims)
        if not self.denies_edits or not is_command or decision.effect == "deny":
            return decision
        if any(map(edits_files, request.facts)):
            reason = f"{self.denies_edits} denies editing files"
            return uniform_decision(request, "deny", "deny-rule", reason)
        if decision.effect == "allow" and decision.policy == "mode":
            reason = f"{self.denies_edits} denies editing files, and it may edit some"
            return replace(decision, effect="ask", policy="default", reason=reason)
        return decision

    def only_reads(self, command: ShellCommand) -> bool:
        """Whether the command consists of read-only programs, whatever the rules. Never raises."""
        try:
            facts = self._read(command, finds_secrets=False).facts
        except Exception:
            return False  # Deciding about it fails as well, and reports it.
        commands = [fact for fact in facts if isinstance(fact, CommandFact)]
        return bool(commands) and not any(fact.refusal for fact in commands)

    def simulate(
        self, claims: Sequence[Claim], cwd: str, *, tool: str = ""
    ) -> SimulatedCall | None:
        """Return a function that judges these claims with other rules; None if none can allow them.

        None of the rules are stored.
        """
        self._refresh_policy()
        if self._denied_by(tool, claims):
            return None
        try:
            request, policy = self._request(claims, cwd), self._policy
        except Exception:
            return None

        def effect(grants: Sequence[Rule], rules: Sequence[Rule]) -> Effect:
            more = replace(policy, grants=tuple(grants), rules=(*policy.rules, *rules))
            return decide(request, more).effect

        return effect

    def withholds(self, real: str) -> bool:
        """Whether a search must skip this file (`Workspace.withheld`): reading it would ask."""
        self._refresh_policy()
        try:
            fact = PathFact("read", self._places.find(real, only_reads=True))
            beyond = self._beyond_limits(CallFacts((fact,)))
            return bool(beyond) or effect_on(fact, self._policy) != "allow"
        except Exception:
            return True

    def _refresh_policy(self) -> None:
        """Bring the policy up to date before a decision."""

    def _denied_by(self, tool: str, claims: Sequence[Claim]) -> str:
        """Return what switched the tool off, also by its kind (`mcp_tool`, `plugin_tool`)."""
        denied = {name.lower(): by for name, by in self.denied_tools.items()}
        names = [tool.lower()]
        for claim in claims:
            if claim.op in ("mcp", "plugin"):
                names += [f"{claim.op}_tool", str(claim.resource).lower()]
        return next((denied[name] for name in names if name in denied), "")

    def _beyond_limits(self, request: CallFacts) -> str:
        """Return why a path limit denies the call, or "".

        What a command reads isn't known, so a limit of reading denies every command; one of
        changing denies those that aren't read-only. Own output may always be read: results refer to
        it.
        """
        for limit in self.path_limits:
            roots = [self._real(folder) for folder in limit.folders]
            roots += self._places.outputs if limit.op == "read" else ()
            for fact in request.facts:
                if isinstance(fact, PathFact):
                    is_beyond = fact.op == limit.op and not is_below_any(fact.place.real, roots)
                else:
                    is_beyond = isinstance(fact, CommandFact) and bool(
                        limit.op == "read" or fact.refusal
                    )
                if is_beyond:
                    return f"{limit.by} {limit.describe()}: {fact.resource} {_BEYOND[type(fact)]}"
        return ""

    def _real(self, folder: str) -> str:
        return os.path.realpath(os.path.join(self._workspace.cwd, os.path.expanduser(folder)))

    def _request(self, claims: Sequence[Claim], cwd: str) -> CallFacts:
        facts: list[Fact] = []
        has_plain_command = False
        for claim in claims:
            if isinstance(claim.resource, ShellCommand):
                command = self._read(claim.resource)
                has_plain_command |= command.has_plain_command
                facts.extend(command.facts)
            elif claim.op in ("read", "edit"):
                place = self._places.find(os.path.join(cwd, claim.resource))
                if claim.removes and place.exists:
                    place = replace(place, unkept=self._workspace.originals.unkept(place.real))
                facts.append(PathFact("read" if claim.op == "read" else "edit", place))
            else:
                facts.append(NameFact(claim.op, claim.resource))
        return CallFacts(tuple(dict.fromkeys(facts)), has_plain_command)

    def _read(self, command: ShellCommand, *, finds_secrets: bool = True) -> CallFacts:
        """Look up what a command would do; `finds_secrets` also below folders that it searches."""
        # Imported here: the grammar and the program tables are loaded with the first command.
        from dirge_py.permission.path_mentions import ShellLookups
        from dirge_py.permission.shell import read_command

        lookups = ShellLookups(
            self._places,
            self._policy,
            roots=self._workspace.roots,
            home=self.home,
            finds_secrets=finds_secrets,
        )
        return read_command(command, lookups)


_BEYOND = {PathFact: "is outside them", CommandFact: "may touch other files"}


def suggest_flags(decision: Decision) -> str:
    """Return the flags that would have allowed it (`--allow 'execute:make'`), or "" if none could.

    Also "" if a rule has invisible characters: the user would see, and copy, a different rule.
    """
    if not all(char.isprintable() or char in "\n\t" for rule in decision.wanted for char in rule):
        return ""
    quoted = ("'" + rule.replace("'", "'\\''") + "'" for rule in decision.wanted)
    return " ".join(f"--allow {rule}" for rule in quoted)


LOOKING = (
    "only read-only commands may run here, one after the other and without redirections: "
    "`ls`, `cat`, `wc`, `git log`, `git diff`, `git show` and the like; "
    "for reading and searching use the tools"
)
WORKING = (
    "it would change the project itself, which must not change here: "
    "change the copy, by a path relative to the current folder"
)


class ForkPermissionEngine(PermissionEngine):
    """Judges like `parent`, with its current rules, in another workspace; never allows more.

    `first` are rules that come before all others. Grants of this engine are added to `granted` and
    apply wherever that list is used, but not to the parent. With `only_looks` the mode is "plan",
    whatever the parent's, so that only reading can be granted, and a command that would ask is
    denied. No network is allowed. A call that would change anything below the physical folders
    `kept` is denied in every mode.
    """

    def __init__(
        self,
        workspace: Workspace,
        policy: PolicySet,
        *,
        parent: PermissionEngine,
        granted: list[Rule],
        only_looks: bool,
        first: Sequence[Rule] = (),
        kept: Sequence[str] = (),
        **places: Any,
    ) -> None:
        super().__init__(workspace, policy, **places)
        self._parent = parent
        self._granted = granted
        self._only_looks = only_looks
        self._first = tuple(first)
        patterns = [quoted_path(folder) + end for folder in kept for end in ("", "/**")]
        rules = tuple(Rule("edit", pattern, "deny") for pattern in patterns)
        self._kept = PolicySet(rules=rules, mode="yolo")
        self.history = parent.history
        self._refresh_policy()

    @property
    def opens_network(self) -> bool:
        return False

    def add_grant(self, rule: str) -> Rule:
        grant = super().add_grant(rule)
        if grant not in self._granted:
            self._granted.append(grant)
        return grant

    def decide(
        self, claims: Sequence[Claim], cwd: str | None = None, *, tool: str = ""
    ) -> Decision:
        decision = super().decide(claims, cwd, tool=tool)
        if decision.effect != "deny" and self._would_change_kept(claims, cwd):
            return replace(decision, effect="deny", policy="default", reason=WORKING, grant=())
        is_command = any(claim.op == "execute" for claim in claims)
        if not self._only_looks or decision.effect == "allow" or not is_command:
            return decision
        reason = f"{decision.reason}: {LOOKING}"
        return replace(decision, effect="deny", reason=reason, grant=(), wider=(), wanted=())

    def _would_change_kept(self, claims: Sequence[Claim], cwd: str | None) -> bool:
        if not self._kept.rules:
            return False
        try:
            request = self._request(claims, cwd or self._workspace.cwd)
            return decide(request, self._kept).effect == "deny"
        except Exception:
            return False  # Judging it failed above, too, so it asks.

    def _refresh_policy(self) -> None:
        parent = self._parent
        self.denied_tools = parent.denied_tools
        self.denies_edits = parent.denies_edits
        self.path_limits = parent.path_limits
        self._policy = replace(
            self._policy,
            rules=(*self._first, *parent.rules),
            mode="plan" if self._only_looks else parent.mode,
            grants=(*(() if self._only_looks else parent.grants), *self._granted),
        )
