"""Rules wider than one call that a person may want: a family of commands, or a folder.

Only programs are listed whose subcommands are a thing of their own. Left out on purpose:
interpreters, shells and wrappers, and the subcommands that run whatever they are told.
"""

import os.path
import re
from collections.abc import Sequence

from dirge_py.permission.facts import CommandFact, Fact, PathFact
from dirge_py.permission.patterns import quoted_path
from dirge_py.permission.words import Word, listed

_PROGRAMS = listed(
    "git gh glab npm yarn pnpm cargo go docker podman kubectl helm pip pip3 uv poetry pdm hatch"
    " brew apt apt-get dnf systemctl terraform dotnet mix bundle gem composer gradle mvn rustup"
    " conda mamba aws gcloud az flutter dart swift bazel nx turbo"
)
_RUN_ANYTHING = frozenset(
    (
        "git bisect", "git submodule", "git filter-branch", "git rebase", "git config", "git help",
        "git difftool", "git mergetool", "git for-each-repo", "git daemon", "git hook", "gh alias",
        "gh extension", "npm exec", "npm x", "yarn exec", "yarn dlx", "yarn node", "pnpm exec",
        "pnpm dlx", "cargo run", "go run", "go generate", "go tool", "docker run", "docker exec",
        "docker compose", "podman run", "podman exec", "kubectl exec", "kubectl run",
        "kubectl debug", "uv run", "uv tool", "poetry run", "pdm run", "hatch run", "bundle exec",
        "gem exec", "conda run", "mamba run", "rustup run", "systemctl edit", "composer exec",
        "dotnet run", "mix run", "dart run", "swift run", "bazel run", "nx exec", "flutter run",
    )
)  # fmt: skip
_NAMED_SCRIPT = frozenset(("npm run", "npm run-script", "yarn run", "pnpm run"))
_TWO_LEVELS = frozenset(("gh", "glab", "aws", "gcloud", "az"))
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9:_-]*")


def wider_rule(fact: Fact) -> str:
    """A rule that covers this and its like (`execute:git push *`, `edit:/w/src/**`), or ""."""
    if isinstance(fact, CommandFact):
        return _family(fact.words)
    if isinstance(fact, PathFact) and fact.op == "edit" and fact.place.inside:
        folder = os.path.dirname(fact.place.real).rstrip("/")
        return f"edit:{quoted_path(folder)}/**" if folder else ""
    return ""


def _family(words: Sequence[Word]) -> str:
    texts = [word.text for word in words]
    if len(texts) < 2 or texts[0] not in _PROGRAMS or not _PLAIN.fullmatch(texts[1]):
        return ""
    lead = " ".join(texts[:2])
    if lead in _RUN_ANYTHING:
        return ""
    # A script is what its name says, and `gh pr list` has little to do with `gh pr merge`.
    if lead not in _NAMED_SCRIPT and texts[0] not in _TWO_LEVELS:
        return f"execute:{lead} *"
    if len(texts) < 3 or not _PLAIN.fullmatch(texts[2]):
        return ""
    return f"execute:{lead} {texts[2]} *"
