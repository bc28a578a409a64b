"""The generated sandbox profiles, and how settings change them."""

import os
from pathlib import Path

import pytest

from dirge_py.config.schema import Config, config_from
from dirge_py.files.workspace import Workspace
from dirge_py.processes.sandbox import probe
from dirge_py.processes.sandbox.bubblewrap import BubblewrapSetup, mount_arguments, wrapped
from dirge_py.processes.sandbox.landlock import rules_of
from dirge_py.processes.sandbox.mount_plan import (
    MountPlan,
    effect_on,
    physical_profile,
    plan_mounts,
)
from dirge_py.processes.sandbox.profile import (
    LaunchSpec,
    NoSandbox,
    Permit,
    Sandbox,
    SandboxProfile,
)
from dirge_py.processes.sandbox.seatbelt import seatbelt_profile
from dirge_py.processes.sandbox.seccomp import filter_program
from dirge_py.sdk.environment import open_sandbox, sandbox_profile_of
from dirge_py.types.errors import ConfigError, ProcessError
from tests.support.requirements import lacking

PLACES: MountPlan = {
    "/": "show",
    "/home/a": "hide",
    "/home/a/.cargo": "show",
    "/home/a/work": "write",
    "/home/a/work/.git": "guard",
    "/run/x.sock": "mask",
}


def existing(path: str) -> str | None:
    return path


def bubblewrap_options(*, has_network: bool = False) -> str:
    return " ".join(mount_arguments(PLACES, ensure=existing, has_network=has_network))


# --- bubblewrap


def test_bubblewrap_profile_starts_unshared_and_read_only():
    assert bubblewrap_options().startswith(
        "--unshare-all --unshare-user --cap-drop ALL --new-session "
        "--ro-bind / / --dev /dev --proc /proc "
    )
    assert "--ro-bind /proc/sys /proc/sys" in bubblewrap_options()


def test_mounts_are_ordered_from_outer_to_inner():
    text = bubblewrap_options()

    assert text.index("--bind /home/a/work /home/a/work") < text.index("/home/a/work/.git")
    assert "--ro-bind /home/a/work/.git /home/a/work/.git" in text
    assert "--ro-bind /dev/null /run/x.sock" in text


def test_network_is_shared_only_if_granted():
    assert "--share-net" not in bubblewrap_options()
    assert "--share-net" in bubblewrap_options(has_network=True)


def test_missing_path_that_cannot_be_created_is_not_mounted():
    options = mount_arguments(PLACES, ensure=lambda path: None, has_network=False)

    assert "/home/a/work/.git" not in options


def test_launcher_arguments_contain_no_environment_variables():
    setup = BubblewrapSetup(program="/usr/bin/bwrap", filter_path="/proc/1/fd/5")

    arguments = wrapped(["make", "a b"], ["--ro-bind", "/", "/"], setup)

    assert arguments == [
        *("/bin/bash", "--norc", "--noprofile", "-p", "-c"),
        "trap '' TERM; exec \"$@\" 9</proc/1/fd/5",
        "sandbox",
        *("/usr/bin/bwrap", "--die-with-parent", "--seccomp", "9", "--ro-bind", "/", "/", "--"),
        *("/usr/bin/env", "--default-signal=TERM", "make", "a b"),
    ]


# --- effects on paths


def spec_of(profile: SandboxProfile, path: str = "/usr/bin", *permits: Permit) -> LaunchSpec:
    environment = {"PATH": path}
    return LaunchSpec(
        cwd=profile.roots[0], environment=environment, call_id="", permits=frozenset(permits)
    )


@pytest.fixture
def profile(home: Path) -> SandboxProfile:
    (home / "work").mkdir()
    return physical_profile(SandboxProfile(roots=(str(home / "work"),), home=str(home)))


def test_only_toolchains_are_visible_in_home(home, profile):
    for folder in (".cargo/bin", ".rustup", ".ssh", "bin", ".local/bin", ".local/share/keyrings"):
        (home / folder).mkdir(parents=True)
    (home / ".cargo/credentials.toml").touch()
    (home / ".gitconfig").touch()
    path = os.pathsep.join(str(home / name) for name in (".cargo/bin", "bin", ".local/bin"))

    places = plan_mounts(profile, spec_of(profile, path))

    effects = {
        name: effect_on(str(home / name), places)
        for name in (
            ".cargo/registry", ".cargo/credentials.toml", ".rustup", ".ssh", "bin", ".local/bin",
            ".local/share/keyrings", ".gitconfig", "work", "work/.git", "work/.dirge", "work/src",
        )
    }  # fmt: skip
    assert effects == {
        ".cargo/registry": "show",
        ".cargo/credentials.toml": "mask",
        ".rustup": "show",
        ".ssh": "hide",
        "bin": "show",
        ".local/bin": "show",
        ".local/share/keyrings": "hide",
        ".gitconfig": "show",
        "work": "write",
        "work/.git": "guard",
        "work/.dirge": "guard",
        "work/src": "write",
    }


def test_home_on_path_stays_hidden(home, profile):
    places = plan_mounts(profile, spec_of(profile, f"{home}:{home}/.local:{home.parent}"))

    assert effect_on(str(home / ".ssh"), places) == "hide"


def test_project_venv_cannot_expose_folder_without_python(home, profile):
    (home / ".ssh/bin").mkdir(parents=True)
    (home / ".ssh/bin/python").touch()
    (home / "work/.venv/bin").mkdir(parents=True)
    (home / "work/.venv/pyvenv.cfg").touch()
    (home / "work/.venv/bin/python").symlink_to(home / ".ssh/bin/python")

    places = plan_mounts(profile, spec_of(profile))

    assert effect_on(str(home / ".ssh"), places) == "hide"


def test_python_of_project_venv_is_visible(home, profile):
    real = home / ".pyenv/versions/3.12"
    (real / "bin").mkdir(parents=True)
    (real / "lib/python3.12").mkdir(parents=True)
    (real / "bin/python3.12").touch()
    (home / "work/.venv/bin").mkdir(parents=True)
    (home / "work/.venv/pyvenv.cfg").touch()
    (home / "work/.venv/bin/python").symlink_to(real / "bin/python3.12")

    places = plan_mounts(profile, spec_of(profile))

    assert effect_on(str(real), places) == "show"
    assert effect_on(str(home / ".pyenv"), places) == "hide"


def test_state_and_config_folders_are_hidden(home):
    (home / "work/state").mkdir(parents=True)
    profile = physical_profile(
        SandboxProfile(
            roots=(str(home / "work"),),
            home=str(home),
            hidden=(str(home / "work/state"), str(home / "work/config/dirge")),
        )
    )

    places = plan_mounts(profile, spec_of(profile))

    assert effect_on(str(home / "work/state/log"), places) == "hide"
    assert effect_on(str(home / "work/config/dirge"), places) == "hide"
    with pytest.raises(ProcessError):
        physical_profile(
            SandboxProfile(roots=(str(home / "work/state"),), home=str(home), hidden=profile.hidden)
        )


def test_parent_of_home_is_rejected_as_sandbox_workspace(home):
    found = probe.find_sandbox(SandboxProfile(roots=(str(home.parent),), home=str(home)))

    assert isinstance(found, NoSandbox)
    assert found.reason == f"{home.parent} contains your whole home folder, which a sandbox hides"
    assert found.fix.startswith("Start in a project folder below it")


# --- Landlock


def test_landlock_rules_never_allow_restricted_subfolders(home):
    for folder in ("a/work/src", "a/work/.git", "a/secret", "b"):
        (home / folder).mkdir(parents=True)
    base = str(home)
    places: MountPlan = {
        "/": "hide",
        base: "show",
        f"{base}/a": "hide",
        f"{base}/a/work": "write",
        f"{base}/a/work/.git": "guard",
    }

    assert dict(rules_of(places)) == {
        f"{base}/a/work": "show",
        f"{base}/a/work/.git": "show",
        f"{base}/a/work/src": "write",
        f"{base}/b": "show",
    }


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_seccomp_filter_allows_by_default(machine):
    program = filter_program(sockets=True, machine=machine)

    assert program is not None
    assert len(program) % 8 == 0
    assert program.endswith(b"\x06\0\0\0\0\0\xff\x7f")


def test_seccomp_filter_is_missing_for_unknown_machine():
    assert filter_program(sockets=True, machine="riscv64") is None


# --- seatbelt


def test_seatbelt_profile_orders_rules_and_denies_network():
    text = seatbelt_profile(PLACES, has_network=False)

    lines = text.splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert text.index('(deny file-read* file-write* (subpath "/home/a"))') < text.index(
        '(allow file-read* file-write* (subpath "/home/a/work"))'
    )
    assert lines.index('(allow file-read* file-write* (subpath "/home/a/work"))') < lines.index(
        '(deny file-write* (subpath "/home/a/work/.git"))'
    )
    assert "(deny network*)" in lines
    assert text.count("(") == text.count(")")


def test_seatbelt_profile_denies_moving_pinned_folder():
    places: MountPlan = {"/": "show", "/a": "write", "/a/b": "pin", "/a/b/.git": "guard"}

    lines = seatbelt_profile(places, has_network=False).splitlines()

    assert lines.index('(allow file-read* file-write* (subpath "/a"))') < lines.index(
        '(deny file-write-unlink (literal "/a/b"))'
    )


def test_seatbelt_profile_quotes_paths():
    places: MountPlan = {"/": "show", '/a"b\\c': "hide"}

    assert '(subpath "/a\\"b\\\\c")' in seatbelt_profile(places, has_network=True)


# --- the fix


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "bwrap-userns-restrict"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces="),
        ("nothing", "", "--sandbox off"),
    ],
)
def test_namespace_fix_names_blocking_setting(setting, value, named):
    def read(path: str) -> str:
        return value if path == f"/proc/sys/{setting}" else ""

    assert named in probe.fix_namespaces(read)


# --- settings


def config_of(home: Path, **sandbox: object) -> Config:
    return config_from({"sandbox": sandbox})


@pytest.fixture
def workspace(home: Path) -> Workspace:
    (home / "work").mkdir(exist_ok=True)
    return Workspace([home / "work"], home / "work")


@pytest.fixture
def _no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        probe,
        "find_sandbox",
        lambda profile: NoSandbox("bubblewrap is not installed", "Install it."),
    )


def test_sandbox_settings_become_profile(home, workspace):
    config = config_of(
        home, readable=["~/.cargo"], writable=["build", "/opt/x"], hosts=["a.example"], network=True
    )

    profile = sandbox_profile_of(config, workspace)

    assert profile == SandboxProfile(
        roots=tuple(workspace.roots),
        home=str(home),
        readable=(f"{home}/.cargo",),
        writable=(f"{workspace.roots[0]}/build", "/opt/x"),
        hidden=(str(home / ".config/dirge"), str(home / ".local/state/dirge")),
        network=True,
        hosts=("a.example",),
    )


def test_sandbox_mode_off_skips_detection(home, workspace, monkeypatch):
    monkeypatch.setattr(probe, "find_sandbox", lambda profile: pytest.fail("looked"))

    assert open_sandbox(config_of(home, mode="off"), workspace, []) is None


@pytest.mark.usefixtures("_no_sandbox")
def test_preferred_sandbox_that_is_missing_gives_notice(home, workspace):
    notices: list[str] = []

    assert open_sandbox(config_of(home, mode="preferred"), workspace, notices) is None
    assert notices == ["Commands run without a sandbox: bubblewrap is not installed. Install it."]


@pytest.mark.usefixtures("_no_sandbox")
def test_required_sandbox_that_is_missing_is_config_error(home, workspace):
    with pytest.raises(ConfigError, match="bubblewrap is not installed") as caught:
        open_sandbox(config_of(home, mode="required"), workspace, [])

    assert caught.value.hint.startswith("Install it.")


def test_required_sandbox_that_works_is_returned(home, workspace):
    notices: list[str] = []
    try:
        sandbox = open_sandbox(config_of(home, mode="required"), workspace, notices)
    except ConfigError as error:
        lacking(f"a sandbox: {error}")

    assert isinstance(sandbox, Sandbox)
    sandbox.close()
    assert bool(notices) == bool(sandbox.limits)


def test_invalid_sandbox_host_is_config_error(home, workspace):
    with pytest.raises(ConfigError, match=r"a\.\.b"):
        open_sandbox(config_of(home, mode="required", hosts=["a..b"]), workspace, [])
