"""dirge's settings, keys and state are protected in every mode."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.files.workspace import Workspace
from dirge_py.permission.decision import Decision
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import Mode
from dirge_py.permission.settings import open_engine
from dirge_py.sdk.options import BuildOptions
from dirge_py.types.tools import Claim, ShellCommand

from .conftest import Project, allow

MODES: tuple[Mode, ...] = ("standard", "accept", "restrictive", "yolo")


class SettingsHome:
    """A home folder as workspace, with dirge's settings in it or linked from it."""

    def __init__(self, home: Path) -> None:
        self.root = home
        self.config = home / ".config/dirge"
        self.dots = home / "dotfiles/dirge"
        self.environment = {"HOME": str(home)}
        for folder in (self.config / "plugins", self.config / "keys", self.dots, home / "src"):
            folder.mkdir(parents=True)
        (self.config / "config.toml").write_text("")
        self.workspace = Workspace([home], home)

    def gate(self, mode: Mode = "yolo", file: Path | None = None) -> PermissionEngine:
        config = load(environment=self.environment, path=file)
        gate = open_engine(config, BuildOptions(), self.workspace, None)
        gate.mode = mode
        return gate

    def edit(self, path: str, mode: Mode = "yolo") -> Decision:
        return self.gate(mode).decide([Claim("edit", path)], str(self.root))

    def run(self, command: str, mode: Mode = "yolo") -> Decision:
        return self.gate(mode).decide([Claim("execute", ShellCommand(command, str(self.root)))])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SettingsHome]:
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    made = SettingsHome(tmp_path.resolve())
    yield made
    made.workspace.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "path",
    [
        ".config/dirge/config.toml", ".config/dirge/plugins/new.py", ".config/dirge/prompts/a.md",
        ".config/dirge", ".config/dirge/x/../config.toml", ".Config/DIRGE/config.toml",
    ],
)  # fmt: skip
def test_editing_dirge_settings_asks_in_every_mode(
    home: SettingsHome, path: str, mode: Mode
) -> None:
    decision = home.edit(path, mode)

    assert (decision.effect, decision.policy, decision.grant) == ("ask", "protected", ())


def test_plan_mode_denies_editing_dirge_settings(home: SettingsHome) -> None:
    assert home.edit(".config/dirge/config.toml", "plan").effect == "deny"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", [".config/dirge/keys/x", ".local/state/dirge/trust.json"])
def test_editing_dirge_keys_and_state_is_denied_in_every_mode(
    home: SettingsHome, path: str, mode: Mode
) -> None:
    assert home.edit(path, mode).policy == "hard-deny"


def test_dirge_settings_can_be_read_without_asking(home: SettingsHome) -> None:
    claim = Claim("read", str(home.config / "config.toml"))

    assert home.gate("standard").decide([claim]).effect == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > ~/.config/dirge/config.toml", "cp evil.py ~/.config/dirge/plugins/",
        "cd ~/.config/dirge && touch x", "cd .config/dirge && make",
        "cd .config/dirge; tar xf ../a",
        "sed -i s/a/b/ .config/dirge/config.toml", "tee .config/dirge/plugins/x.py",
        "cat x | tee -a $HOME/.config/dirge/config.toml", "rm -rf .config", "mv .config old",
        "cp -r dirge .config", "mv dirge .config/", "cp -r skeleton/. .config",
        "ln -s x .config/dirge",
        "rsync -a skeleton/ .config", "bash -c 'echo x > .config/dirge/plugins/a.py'",
        "python -c \"open('HOME/.config/dirge/config.toml', 'w')\"", "rm .config/d*/config.toml",
        "sh -c \"cd ~/.config/dirge && echo x > a\"", "x=$(echo > ~/.config/dirge/config.toml)",
        "tar -C .config/dirge -xf a.tar", "unzip -d.config/dirge a.zip", "chmod -R 777 .config",
        "git -C .config/dirge pull", "dd of=.config/dirge/config.toml", "echo x>.config/dirge/a",
        "install -t .config/dirge/plugins x.py", "cp --target-directory=.config/dirge x",
    ],
)  # fmt: skip
def test_command_that_can_change_dirge_settings_is_never_allowed_in_yolo(
    home: SettingsHome, command: str
) -> None:
    assert home.run(command.replace("HOME/", f"{home.root}/")).effect in ("ask", "deny")


@pytest.mark.parametrize(
    "command",
    ["rm -rf src", "make", "cp a src", "cp -r src .config/other", "ls .config/dirge", "touch x",
     "cat .config/dirge/config.toml", "mv src .config/src", "git pull", "tar xf a.tar", "cp a ~"],
)  # fmt: skip
def test_command_that_does_not_change_dirge_settings_is_allowed_in_yolo(
    home: SettingsHome, command: str
) -> None:
    assert home.run(command).effect == "allow"


@pytest.mark.parametrize("is_folder", [True, False])
def test_target_of_symlinked_settings_is_protected(home: SettingsHome, is_folder: bool) -> None:
    link = home.config / ("plugins" if is_folder else "config.toml")
    link.rmdir() if is_folder else link.unlink()
    link.symlink_to(home.dots)
    if not is_folder:
        link.unlink()
        link.symlink_to(home.dots / "config.toml")
    inner = "dotfiles/dirge/config.toml"

    assert home.edit(inner).effect == "ask"
    assert home.run(f"echo x > {inner}").effect == "ask"
    assert home.edit("dotfiles/other").effect == "allow"


def test_target_of_symlinked_settings_folder_is_protected(home: SettingsHome) -> None:
    (home.root / "dotfiles/all").mkdir()
    home.config.rename(home.root / "dotfiles/all/dirge")
    home.config.symlink_to(home.root / "dotfiles/all/dirge")

    assert home.edit("dotfiles/all/dirge/plugins/a.py").effect == "ask"
    assert home.edit("dotfiles/all/dirge/keys/a").effect == "deny"
    assert home.edit("dotfiles/all/bashrc").effect == "allow"


def test_hard_links_to_settings_and_keys_are_protected(home: SettingsHome) -> None:
    os.link(home.config / "config.toml", home.root / "src/plain.toml")
    (home.config / "keys/main").write_text("key")
    os.link(home.config / "keys/main", home.root / "src/plain.txt")

    assert home.edit("src/plain.toml").effect == "ask"
    assert home.edit("src/plain.txt").effect == "deny"
    assert home.run("cat src/plain.txt").effect == "deny"


def test_settings_file_named_at_start_is_protected(home: SettingsHome) -> None:
    file = home.root / "src/mine.toml"
    file.write_text("")
    claim = Claim("edit", str(file))

    assert home.gate(file=file).decide([claim]).effect == "ask"
    assert home.gate().decide([claim]).effect == "allow"


@pytest.mark.parametrize("place", ["named", "usual"])
def test_settings_folders_of_environment_and_default_folders_are_protected(
    home: SettingsHome, place: str
) -> None:
    home.environment |= {
        "DIRGE_CONFIG_DIR": str(home.root / "named/config"),
        "DIRGE_STATE_DIR": str(home.root / "named/state"),
    }
    settings = {"named": "named/config", "usual": ".config/dirge"}[place]
    state = {"named": "named/state", "usual": ".local/state/dirge"}[place]

    assert home.edit(f"{settings}/config.toml").effect == "ask"
    assert home.edit(f"{state}/trust.json").effect == "deny"
    assert home.edit("named/other").effect == "allow"


def test_allow_rules_and_grants_do_not_allow_editing_dirge_settings(own_project: Project) -> None:
    own_project.workspace.add_root(own_project.home)
    for mode in MODES:
        gate = own_project.gate(allow("edit:/**"), allow("execute:*"), mode=mode)
        gate.add_grant("edit:/**")
        path = str(own_project.config / "config.toml")

        assert gate.decide([Claim("edit", path)]).effect == "ask"
        assert gate.decide([own_project.execute(f"touch {path}")]).effect == "ask"
        assert gate.why_ineffective(f"edit:{own_project.config}/**")


@pytest.mark.parametrize("command", ["echo CONFIG_ | xargs rm", "echo CONFIG_ | sudo xargs -n1 rm"])
def test_settings_path_piped_into_xargs_asks(project: Project, command: str) -> None:
    spelled = command.replace("CONFIG_", str(project.config / "config.toml"))

    assert project.run(spelled, mode="yolo").effect == "ask"
    assert project.run("echo a | xargs rm", mode="yolo").effect == "allow"
