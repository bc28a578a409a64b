"""Keep the agent from changing some files, and tell it what to do instead.

[plugins.protected_paths]
paths = ["*.lock", "generated/*"]      # roughly as in .gitignore, relative to dirge's folder
why = "Change the template and run `make generate`."
"""

from fnmatch import fnmatch
from pathlib import Path


def register(dirge):
    patterns = dirge.settings.get("paths", ["*.lock", "generated/*"])
    why = dirge.settings.get("why", "Leave it as it is, and say what you would have changed.")
    here = Path.cwd()

    def protecting(path):
        """The pattern that protects this absolute path, if any."""
        relative = Path(path).relative_to(here) if Path(path).is_relative_to(here) else Path(path)
        for pattern in patterns:
            if fnmatch(str(relative), pattern) or fnmatch(relative.name, pattern):
                return pattern
        return None

    @dirge.on("before_tool_call")
    def keep_out(info, call):
        if call.tool is None or call.problem:
            return None  # it will not run anyway
        # The claims of a call say what it would do, so this covers every tool that edits files. For
        # shell commands, whose claims say less, write a deny rule: `edit:*.lock` in [permission].
        for claim in call.tool.claims(call.arguments):
            if claim.op == "edit" and (pattern := protecting(claim.resource)):
                return dirge.refuse(f"{claim.resource} is protected ({pattern}). {why}")
        return None
