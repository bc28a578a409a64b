"""Hold back commands that destroy things until a person has confirmed each with /confirm.

The agent is told to stop and explain. /confirm lets the command that was held back run once; after
that the usual permission rules still decide. In `dirge -p` nobody can confirm: there it stays held.

[plugins.confirm_destructive]
pattern = 'rm -rf|terraform destroy'   # a regular expression in the place of the built-in one
allow = ["rm -rf build"]               # exactly these are never held back
"""

import re

DESTRUCTIVE = (
    r"\brm\s+(-\w+\s+)*-\w*[rR]"
    r"|\bgit\s+(push\b.*(\s-f\b|--force)|reset\s+--hard|clean\s+-\w*f|branch\s+-D)"
    r"|\b(drop|truncate)\s+(table|database)\b"
    r"|\b(terraform|tofu)\s+destroy\b"
    r"|\bkubectl\s+delete\b"
)


def register(dirge):
    destroys = re.compile(dirge.settings.get("pattern", DESTRUCTIVE), re.IGNORECASE)
    never_held = set(dirge.settings.get("allow", []))
    held = []  # the last command that was held back
    confirmed = set()  # each may run once

    @dirge.on("before_tool_call")
    def hold_back(info, call):
        command = call.arguments.get("command") if isinstance(call.arguments, dict) else None
        if not isinstance(command, str) or command in never_held or not destroys.search(command):
            return None
        if command in confirmed:
            confirmed.remove(command)
            return None
        held[:] = [command]
        dirge.notify(f"held back: {command}   (/confirm lets it run once)")
        return dirge.refuse(
            "This destroys something, so a person has to confirm it first. Do not look for another "
            "way. Say what the command would destroy and why it is needed, and end your answer."
        )

    @dirge.command("confirm", help="let the destructive command that was held back run once")
    def confirm(args, conversation, front):
        if not held:
            return "Nothing is held back."
        confirmed.add(held[0])
        return f"It may run once: {held.pop()}\nTell the agent to go on."
