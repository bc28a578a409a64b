"""The permission engine: looks up what claims refer to, then asks `decide` what may happen.

`ForkPermissionEngine` is the one of a fork that works in a copy or may only look: it follows the
rules of its parent and never allows more.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from dirge_py.files.workspace import Workspace
from dirge_py.lib.paths import is_below_any
from dirge_py.permission.decide import decide, refuse_tool
from dirge_py.permission.decision import ClaimDecision, Decision, DecisionLog
from dirge_py.permission.facts import ArgvPlan, CallFacts, Fact, NameFact, PathFact
from dirge_py.permission.git.repository import git_dirs_of, git_hazard, hooks_at, is_bare_repository
from dirge_py.permission.path_resolver import PathResolver
from dirge_py.permission.patterns import GlobExpander, quoted_path
from dirge_py.permission.protected import why_protected, why_secret
from dirge_py.permission.rules import Effect, Mode, PolicySet, Rule, anchored, parse_rule, permits
from dirge_py.processes.programs import program_problem, remembered_closed_folders
from dirge_py.types.errors import UsageError
from dirge_py.types.tools import Claim, ShellCommand

_LOG = logging.getLogger(__name__)


class SimulatedCall:
    """One call as it would be judged today, with grants or rules that are not stored."""

    def __init__(self, request: CallFacts, policy: PolicySet) -> None:
        self._request = request
        self._policy = policy

    def effect(self, *, grants: Sequence[Rule] = (), rules: Sequence[Rule] = ()) -> Effect:
        """With exactly these `grants` of the session, and `rules` after all others."""
        rules = (*self._policy.rules, *rules)
        policy = replace(self._policy, grants=tuple(grants), rules=rules)
        return decide(self._request, policy).effect


class PermissionEngine:
    """Judges claims for one session: its rules, its mode, and what was granted in it.

    `state_dirs` are places (folders or files) of dirge's own that nothing may touch in any mode,
    save reading below `own_output_dirs`; `settings` are places that nothing changes unasked in any
    mode. Removing a file asks as editing a protected one does if `workspace.originals` says that no
    snapshot holds it. Decisions look at the file system but open nothing except git's own files,
    ignore files where a search obeys them, and certificates. `denied_tools` are tools that are
    switched off, by name, with what did it (`prompt NAME`); `history` is what was decided, for
    `/why`.
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
        self._denied_tools: Mapping[str, str] = {}
        self._workspace = workspace
        self._home = os.path.realpath(os.fspath(home or Path.home()))
        self._places = PathResolver(
            workspace, state_dirs=state_dirs, settings=settings, own_output_dirs=own_output_dirs
        )
        own = (workspace.cwd, os.path.realpath(workspace.cwd), *workspace.roots)
        folders = tuple(dict.fromkeys((*own, *policy.anchors.folders)))
        anchors = replace(policy.anchors, folders=folders, home=self._home)
        self._policy = replace(policy, anchors=anchors)

    @property
    def home(self) -> str:
        """The physical home folder."""
        return self._home

    @property
    def mode(self) -> Mode:
        return self._policy.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._policy = replace(self._policy, mode=mode)

    @property
    def denied_tools(self) -> Mapping[str, str]:
        return self._denied_tools

    @denied_tools.setter
    def denied_tools(self, denied: Mapping[str, str]) -> None:
        self._denied_tools = {name.lower(): by for name, by in denied.items()}

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._policy.rules

    def add_rule(self, rule: str, source: str) -> Rule:
        """Allow what `rule` (`op:pattern`) matches, as if it had stood in the settings.

        Raises:
            UsageError: it is no rule.
        """
        added = parse_rule(rule, "allow", source=source)
        if added not in self.rules:
            self._policy = replace(self._policy, rules=(*self.rules, added))
        return added

    @property
    def opens_network(self) -> bool:
        """Whether a rule or grant opens every host to sandboxed commands; no mode does alone."""
        policy = self._policy
        rules = policy.rules + policy.project_rules
        about = [rule for rule in rules if rule.op in ("network", "*")]
        if policy.mode == "plan" or any(rule.effect != "allow" for rule in about):
            return False
        anyone = NameFact("network", "any host")
        return any(permits(rule, anyone, policy.anchors) for rule in (*about, *policy.grants))

    @property
    def grants(self) -> tuple[Rule, ...]:
        """What was allowed for this session, oldest first."""
        return self._policy.grants

    def add_grant(self, rule: str) -> Rule:
        """Allow for this session what `rule` (`op:pattern`) matches.

        Raises:
            UsageError: it is no rule.
        """
        grant = parse_rule(rule, "allow", source="this session")
        if grant not in self.grants:
            self._policy = replace(self._policy, grants=(*self.grants, grant))
        return grant

    def why_ineffective(self, rule: str) -> str:
        """Why allowing what `rule` matches would open nothing, or "".

        Raises:
            UsageError: it is no rule.
        """
        parsed = parse_rule(rule, "allow")
        if parsed.op not in ("read", "edit"):
            return ""
        look = why_protected if parsed.op == "edit" else why_secret
        last = parsed.pattern.rsplit("/", 1)[-1]
        # What a star in the last name leaves open may be a name that is free, as `.env.example`.
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
        """Take back the grant at `index` (from 0).

        Raises:
            UsageError: there is none.
        """
        if not 0 <= index < len(self.grants):
            raise UsageError(
                f"there is no grant {index}.", hint=f"This session has {len(self.grants)} of them."
            )
        gone = self.grants[index]
        kept = self.grants[:index] + self.grants[index + 1 :]
        self._policy = replace(self._policy, grants=kept)
        return gone

    def clear_grants(self) -> None:
        self._policy = replace(self._policy, grants=())

    @property
    def folders(self) -> tuple[str, ...]:
        """The physical folders of the workspace, the one it began in first."""
        return self._workspace.roots

    def add_folder(self, folder: Path | str) -> str:
        """Count `folder` as a part of the workspace from now on; its physical path.

        Raises:
            FileError: it is no folder, or cannot be opened.
        """
        real = self._workspace.add_root(folder)
        anchors = self._policy.anchors
        folders = tuple(dict.fromkeys((*anchors.folders, real)))
        self._policy = replace(self._policy, anchors=replace(anchors, folders=folders))
        return real

    def add_output_dir(self, folder: Path | str) -> None:
        """Let what is below `folder` be read: it holds output of this session."""
        self._places.add_output_dir(folder)

    def decide(
        self, claims: Sequence[Claim], cwd: str | None = None, *, tool: str = ""
    ) -> Decision:
        """What may happen with a call of `tool` that makes these claims.

        Never raises: what cannot be judged asks.
        """
        by = self._denied_by(tool, claims)
        try:
            request = self._request(claims, cwd or self._workspace.cwd)
            return refuse_tool(tool, by, request) if by else decide(request, self._policy)
        except Exception as error:
            _LOG.exception("a claim could not be judged")
            return refuse_tool(tool, by, CallFacts(())) if by else _unjudged(claims, error)

    def simulate(
        self, claims: Sequence[Claim], cwd: str, *, tool: str = ""
    ) -> SimulatedCall | None:
        """These claims, to be judged with other rules; None where no rule has a say."""
        if self._denied_by(tool, claims):
            return None
        try:
            return SimulatedCall(self._request(claims, cwd), self._policy)
        except Exception:
            return None

    def withholds(self, real: str) -> bool:
        """Whether a search must pass over this file: reading it would not simply be allowed.

        For `Workspace.withheld`.
        """
        try:
            facts = (PathFact("read", self._places.find(real)),)
            return decide(CallFacts(facts), self._policy).effect != "allow"
        except Exception:
            return True

    def _denied_by(self, tool: str, claims: Sequence[Claim]) -> str:
        """What switched the tool off, also by the name of its kind (`mcp_tool`, `plugin_tool`)."""
        if not self._denied_tools:
            return ""
        names = [tool.lower()]
        for claim in claims:
            if claim.op in ("mcp", "plugin"):
                names += [f"{claim.op}_tool", str(claim.resource).lower()]
        return next((self._denied_tools[name] for name in names if name in self._denied_tools), "")

    def _request(self, claims: Sequence[Claim], cwd: str) -> CallFacts:
        facts: list[Fact] = []
        plans: list[ArgvPlan] = []
        for claim in claims:
            if isinstance(claim.resource, ShellCommand):
                request = self._read(claim.resource)
                plans += [request.plan] if request.plan else []
                facts.extend(request.facts)
            elif claim.op in ("read", "edit"):
                place = self._places.find(os.path.join(cwd, claim.resource))
                if claim.removes and place.exists:
                    place = replace(place, unkept=self._workspace.originals.unkept(place.real))
                facts.append(PathFact("read" if claim.op == "read" else "edit", place))
            else:
                facts.append(NameFact(claim.op, claim.resource))
        return CallFacts(tuple(dict.fromkeys(facts)), plans[0] if plans else None)

    def _read(self, command: ShellCommand) -> CallFacts:
        # Imported here: grammar and tables of programs are loaded with the first command.
        from dirge_py.permission.path_mentions import ShellLookups  # noqa: PLC0415
        from dirge_py.permission.recursive_reads import kept_beneath  # noqa: PLC0415
        from dirge_py.permission.shell import read_command  # noqa: PLC0415

        roots = self._workspace.roots
        # The git folder of a copy leads to that of the original.
        originals = [original for _copy, original in self._policy.anchors.copies]
        search_path = os.environ.get("PATH", os.defpath)

        def look_for_hazards(folder: str) -> str:
            return git_hazard(folder, (*roots, *originals, *git_dirs_of(originals)))

        def look_for_program(name: str) -> str:
            return program_problem(name, search_path, remembered_closed_folders(roots, self._home))

        # One look at each place: a command names the same ones again and again.
        lookups = ShellLookups(
            place=cache(partial(self._places.find, is_bare=cache(is_bare_repository))),
            is_folder=os.path.isdir,
            expand=GlobExpander().expand,
            git_hazard=cache(look_for_hazards),
            git_hooks=hooks_at,
            kept_beneath=cache(
                partial(kept_beneath, places=self._places, policy=self._policy, roots=roots)
            ),
            program_problem=cache(look_for_program),
            own_paths=(*self._places.state, *self._places.settings),
            home=self._home,
            roots=tuple(roots),
        )
        return read_command(command, lookups)


def suggest_flags(decision: Decision) -> str:
    """The flags that would have allowed it (`--allow 'execute:make'`), or "" if none could.

    None for what cannot be seen: a screen would show, and a person copy, a rule for something else.
    """
    if not all(char.isprintable() or char in "\n\t" for rule in decision.wanted for char in rule):
        return ""
    quoted = ("'" + rule.replace("'", "'\\''") + "'" for rule in decision.wanted)
    return " ".join(f"--allow {rule}" for rule in quoted)


def _unjudged(claims: Sequence[Claim], error: Exception) -> Decision:
    reason = f"dirge can't analyze it: {error!r}"
    names = [
        (one.op, one.resource.text if isinstance(one.resource, ShellCommand) else one.resource)
        for one in claims
    ]
    return Decision(
        effect="ask",
        policy="default",
        reason=reason,
        claims=tuple(
            ClaimDecision(op=op, resource=name, effect="ask", policy="default", reason=reason)
            for op, name in names
        ),
    )


LOOKING = (
    "only commands that look may be run here, one after the other and without redirections: "
    "`ls`, `cat`, `wc`, `git log`, `git diff`, `git show` and the like; "
    "reading and searching have tools of their own"
)
WORKING = (
    "it would change the project itself, which has to stay as it is here: "
    "do it in the copy, by a path relative to the current folder"
)


class ForkPermissionEngine(PermissionEngine):
    """Judges as `parent` does at that moment, in another workspace.

    `first` are rules that stand before all others. What is granted here is put into `granted`, and
    holds wherever that list is used, but not for the parent. With `only_looks` nothing is granted
    but reading: it is the mode "plan", whatever the parent's, and what would ask about a command
    denies it. Without, no network is opened. What a call would change below the physical folders
    `kept` denies it, whatever the mode.
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
        self._follow()

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
        self._follow()
        decision = super().decide(claims, cwd, tool=tool)
        if decision.effect != "deny" and self._would_change_kept(claims, cwd):
            return replace(decision, effect="deny", policy="default", reason=WORKING, grant=())
        is_command = any(claim.op == "execute" for claim in claims)
        if not self._only_looks or decision.effect == "allow" or not is_command:
            return decision
        return replace(
            decision,
            effect="deny",
            reason=f"{decision.reason}: {LOOKING}",
            grant=(),
            wider=(),
            wanted=(),
        )

    def _would_change_kept(self, claims: Sequence[Claim], cwd: str | None) -> bool:
        if not self._kept.rules:
            return False
        try:
            request = self._request(claims, cwd or self._workspace.cwd)
            return decide(request, self._kept).effect == "deny"
        except Exception:
            return False  # Then it was not judged above either, and asks.

    def simulate(
        self, claims: Sequence[Claim], cwd: str, *, tool: str = ""
    ) -> SimulatedCall | None:
        self._follow()
        return super().simulate(claims, cwd, tool=tool)

    def withholds(self, real: str) -> bool:
        self._follow()
        return super().withholds(real)

    def _follow(self) -> None:
        parent, is_shut = self._parent, self._only_looks
        self.denied_tools = parent.denied_tools
        self._policy = replace(
            self._policy,
            rules=(*self._first, *parent.rules),
            mode="plan" if is_shut else parent.mode,
            grants=(*(() if is_shut else parent.grants), *self._granted),
        )
