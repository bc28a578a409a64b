import json
import subprocess
import sys
from pathlib import Path

from dirge_py.processes.environment import UNATTENDED, EnvironmentPolicy

CANARIES = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "my_key",
    "LC_SECRET",
    "PATH_TOKEN",
    "HOMEKEY",
    "BASH_ENV",
    "GIT_ASKPASS",
    "DATABASE_URL",
    "X",
]

PRINT_ENVIRONMENT = """
import asyncio, os, sys
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner

async def main():
    for command in ("env; echo ==", "cat /proc/self/environ; echo =="):
        finished = await Runner(EnvironmentPolicy()).run(command, cwd="/")
        sys.stdout.buffer.write(finished.output.head)

asyncio.run(main())
"""


def test_environment_of_dirge_does_not_leak_to_command():
    root = Path(__file__).parents[2]
    environment = {name: f"canary-{name}" for name in CANARIES}
    program = subprocess.run(
        [sys.executable, "-c", PRINT_ENVIRONMENT],
        env={**environment, "PATH": "/usr/bin:/bin", "HOME": "/root", "PYTHONPATH": str(root)},
        capture_output=True,
        check=True,
    )

    assert b"HOME=/root" in program.stdout
    assert program.stdout.count(b"==") == 2
    assert b"canary" not in program.stdout + program.stderr


def test_listed_variables_are_passed_except_withheld_ones():
    source = {"PATH": "/bin", "CARGO_HOME": "/c", "MY_API_KEY": "k"}
    policy = EnvironmentPolicy(["CARGO_HOME", "MY_API_KEY"], withheld=["MY_API_KEY"], source=source)

    environment = policy.build("m")

    assert environment["CARGO_HOME"] == "/c"
    assert "MY_API_KEY" not in environment


def test_command_environment_disables_prompts_and_pagers():
    environment = EnvironmentPolicy(source={"PAGER": "less"}).build("m")

    others = sorted(environment.keys() - UNATTENDED.keys())
    assert {name: environment[name] for name in UNATTENDED} == UNATTENDED
    shown = json.dumps({name: environment[name] for name in others})
    assert shown == json.dumps(
        {
            "DIRGE_CALL": "m",
            "GIT_CONFIG_COUNT": "3",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_KEY_1": "safe.bareRepository",
            "GIT_CONFIG_KEY_2": "protocol.ext.allow",
            "GIT_CONFIG_VALUE_0": "false",
            "GIT_CONFIG_VALUE_1": "explicit",
            "GIT_CONFIG_VALUE_2": "never",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "PATH": "/bin:/usr/bin",
        }
    )


STARTS_PROGRAMS = [
    "BASH_ENV",
    "BASH_FUNC_ls%%",
    "DYLD_INSERT_LIBRARIES",
    "ENV",
    "GIT_CONFIG_COUNT",
    "GIT_DIR",
    "GIT_SSH_COMMAND",
    "GREP_OPTIONS",
    "IFS",
    "LD_PRELOAD",
    "LESSOPEN",
    "NODE_OPTIONS",
    "PS4",
    "PYTHONSTARTUP",
    "RIPGREP_CONFIG_PATH",
    "SHELLOPTS",
]


def test_variables_that_change_commands_are_not_passed_even_if_listed():
    source = dict.fromkeys([*STARTS_PROGRAMS, "GIT_AUTHOR_NAME", "PYTHONPATH"], "evil")

    policy = EnvironmentPolicy(source, source=source)

    passed = {name for name, value in policy.build("m").items() if value == "evil"}
    assert passed == {"GIT_AUTHOR_NAME", "PYTHONPATH"}
    assert policy.refused == tuple(STARTS_PROGRAMS)


def test_relative_folders_are_removed_from_path():
    policy = EnvironmentPolicy(source={"PATH": ".::node_modules/.bin:/usr/bin:bin:/bin"})

    assert policy.build("m")["PATH"] == "/usr/bin:/bin"


def test_extra_variables_override_all_but_call_marker():
    environment = EnvironmentPolicy(source={}).build("m", {"DIRGE_CALL": "x", "PAGER": "more"})

    assert (environment["DIRGE_CALL"], environment["PAGER"]) == ("m", "more")
