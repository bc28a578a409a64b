"""Commands that are denied in every mode.

They destroy the machine, the home folder or a folder above the workspace.
"""

import os
from contextlib import closing
from pathlib import Path

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import Mode, PolicySet
from dirge_py.types.tools import Claim

from .conftest import Project, allow

MODES: tuple[Mode, ...] = ("standard", "accept", "restrictive", "plan", "yolo")

FOLDERS = [
    "/", "/*", "//", "/./", "/.*", "/*/*", "~", "~/", "~/*", "$HOME", "${HOME}", '"$HOME"', "HOME_",
    "$HOME/..", "~root", "/usr", "/usr/", "/usr/*", "/usr/../", "/etc", "/var", "/bin", "/sbin",
    "/lib", "/lib64", "/boot", "/dev", "/proc", "/sys", "/home", "/home/*", "/root", "/opt", "/srv",
    "/mnt", "/System", "/Users", "/Library", "/usr/bin", "/usr/lib", "/usr/local", "/var/lib",
    "/us[r]", "/u*", "/e?c", "/{usr,etc}", '"/"', "'/'", "..", "../*", "$PWD/..", "ROOT_/..",
]  # fmt: skip
WAYS = [
    "rm -rf /", "sudo rm -rf /", "doas rm -rf /usr", "env A=1 rm -rf /", "nohup rm -rf /",
    "timeout 5 rm -rf /", "busybox rm -rf /", "command rm -rf /", "/bin/rm -rf /", "\\rm -rf /",
    "r''m -rf /", "rm -r -f /", "rm -fr /", "rm --recursive --force /", "rm -rf -- /",
    "rm -rf x / y", "rm --no-preserve-root -rf x", "echo / | xargs rm -rf", "find / | xargs rm -rf",
    "find / -print0 | xargs -0 rm", "find / -delete", "find . / -delete",
    "find /usr -type f -delete",
    "find / -exec rm -rf {} +", "find / -exec rm -rf {} \\;", "find / -name x -o -delete",
    "find / -exec sh -c 'rm -rf \"$1\"' x {} +", "sh -c 'rm -rf /'", 'bash -c "rm -rf /"',
    "bash -c 'bash -c \"rm -rf /\"'", "(rm -rf /)", "{ rm -rf /; }", "eval 'rm -rf /'",
    "echo $(rm -rf /)", "rm -rf $(echo /)", "rm -rf `echo /`", "x=/; rm -rf $x",
    'x=/usr; rm -rf "$x"',
    "x=/usr; rm -rf ${x}/*", "for f in /*; do rm -rf $f; done", "cd / && rm -rf *",
    "cd /usr; rm -rf *",
    "cd ..; rm -rf *", "cd /; find . -delete", "bash <<EOF\nrm -rf /\nEOF",
    "cat <<EOF | sh\nrm -rf /\nEOF",
    "chmod -R 777 /", "chmod -R 000 /etc", "chown -R x:x /usr", "chgrp --recursive x /", "mv / x",
    "mv /usr x", "mv /* x", "mv -t x /etc", "rsync -a --delete x/ /", "dd if=x of=/dev/sda",
    "mkfs /dev/sda", "mkfs.ext4 /dev/sda1", "cat x > /dev/sda", "tee /dev/sda < x",
    "cp x /dev/nvme0n1",
    "shred /dev/sda", "wipefs -a /dev/sda", "blkdiscard /dev/sda", "sgdisk --zap-all /dev/sda",
    "cryptsetup luksFormat /dev/sda", ":(){ :|:& };:", ":(){ :|:& };", "b() { b | b & }; b",
    "ls /; ls / | xargs rm", "sudo find / | sudo xargs rm", "rm -rf $(ls -d /*)",
    "x=/; ls $x | xargs rm", "echo a | xargs rm; find / | xargs rm",
    "(echo a | xargs rm); (find / | xargs rm)", "rm -r $(echo a); rm -r $(ls -d /*)",
    "find / |& xargs rm", "(cd x; find /) | xargs rm", "find / | sh -c 'xargs rm'",
    "find / | { xargs rm; }", "x=$(echo /); rm -rf $x", "for f in $(ls -d /*); do rm -rf $f; done",
    "sh -c 'find / | xargs rm'", "find / | sort | xargs rm",
    "function f { f | f & }; f", "bash -c ':(){ :|:& };:'", "f() ( f | f & ); f",
    "f(){ echo ${x}; f|f& };f", "f() { (f | f) & }; f", "# it's\nf(){ f|f& };f # it's",
    "echo \\'; f(){ f|f& };f; echo \\'", "f(){ f|f& };f #" + "x" * 17_000,
    "python -c 'import shutil; shutil.rmtree(\"/\")'",
    "python3 -c 'import subprocess as s; s.run([\"rm\", \"-rf\", \"/\"])'",
    "perl -e 'system(\"rm -rf /\")'",
]  # fmt: skip


def fill_in_paths(project: Project, command: str) -> str:
    return command.replace("HOME_", str(project.home)).replace("ROOT_", str(project.root))


@pytest.mark.parametrize("command", [*(f"rm -rf {folder}" for folder in FOLDERS), *WAYS])
def test_destructive_commands_are_denied_in_every_mode(project: Project, command: str) -> None:
    for mode in MODES:
        decision = project.run(fill_in_paths(project, command), allow("execute:*"), mode=mode)
        assert decision.effect == "deny", mode
        assert "hard-deny" in [claim.policy for claim in decision.claims]


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build", "rm -rf ./node_modules", "rm -rf ../other", "rm -rf /tmp/x", "rm -rf *",
        "rm -rf ROOT_/*", "rm *.o", "rm -rf /usr/local/lib/x", "rm -rf /opt/x", "rm -rf ~/.cache/x",
        "rm -rf ~/.cache/*", 'rm -rf "$TMPDIR/x"', "rm -rf $BUILD/x", "rm -rf $1", 'rm -rf "$1"',
        "B=build; rm -rf $B/*", 'rm -rf "${X:?}"/*', "rm -rf ${B:-build}/*", 'x=$(y); rm -rf "$x"',
        "for i in a b; do rm -rf $i/; done", "find . -delete", "find ~ -name '*.pyc' -delete",
        "find build -type f | xargs rm -f", "git ls-files | xargs rm", "cd src; rm -rf *",
        "chmod -R 755 src", "chmod 644 /usr/local/x", "mv src ..", "mv a /usr/local/bin",
        "dd if=/dev/zero of=x", "dd if=/dev/sda of=x", "echo x > /dev/null",
        "echo x > /dev/ttyUSB0",
        "fdisk -l /dev/sda", "mkfs.ext4 disk.img", "rsync -a --delete src/ build/",
        "rm -rf /var/lib/apt/lists/*", "cat > D <<'EOF'\nRUN rm -rf /usr/*\nEOF", "ls # rm -rf /",
        "echo 'rm -rf /' > doc.md", "echo ':(){ :|:& };:' > doc.md", "f(){ g|g& };f",
        "f(){ echo; }; f | f &", "make # :(){ :|:& };:", 'ls / | head; rm -rf "$(pwd)/build"',
        'echo / && rm -rf "$(cat dir)"', "ls ~; ls *.pyc | xargs rm", "ls / || ls *.o | xargs rm",
        "ls ~ & rm -rf $(cat x)", "echo $(ls /); find build | xargs rm", "(ls /); rm -rf $(ls b)",
        "ls / && rm -rf build",
        "python -c 'import shutil; shutil.rmtree(\"build\")'", "git clean -fdx",
    ],
)  # fmt: skip
def test_commands_similar_to_destructive_ones_are_not_denied(
    project: Project, command: str
) -> None:
    yolo = project.run(fill_in_paths(project, command), mode="yolo")

    assert (yolo.effect, yolo.policy == "hard-deny") == ("allow", False)
    assert project.run(fill_in_paths(project, command)).policy != "hard-deny"


@pytest.mark.parametrize(
    "command",
    ["rm -rf $1/", "rm -rf $1/*", 'rm -rf "$1"/*', "rm -rf /$1", "rm -rf ~/$1", "rm -rf $1/usr",
     "rm -rf ${1%/*}/", "x=$(y); rm -rf $x/*", "chmod -R 777 $1/", "B=x rm -rf $B/"],
)  # fmt: skip
def test_removal_that_empty_variable_makes_destructive_is_denied_in_yolo(
    project: Project, command: str
) -> None:
    yolo, standard = project.run(command, mode="yolo"), project.run(command)

    assert (yolo.effect, yolo.policy, "${NAME:?}" in yolo.reason) == ("deny", "hard-deny", True)
    assert standard.effect == "ask"


@pytest.mark.parametrize(
    "command",
    ["rm -rf $NOT_SET/", 'sudo rm -rf "$NOT_SET"/*', "echo $OTHER; rm -rf ${NOT_SET}/",
     "bash -c 'rm -rf $NOT_SET/'", "chmod -R 777 $NOT_SET/usr"],
)  # fmt: skip
def test_denial_names_unset_variable_that_counts_as_empty(project: Project, command: str) -> None:
    for mode in MODES:
        decision = project.run(command, mode=mode)
        assert (decision.effect, decision.policy) == ("deny", "hard-deny")
        assert "; `$NOT_SET` counts as empty because nothing sets it: " in decision.reason
        assert decision.reason.endswith("write the path out, or `${NOT_SET:?}`")


def test_denial_does_not_name_unset_variable_without_influence(project: Project) -> None:
    for command in ("rm -rf /; echo $NOT_SET", "rm -rf $HOME", "x=/; rm -rf $x; echo $NOT_SET"):
        decision = project.run(command)
        assert decision.effect == "deny" and "counts as empty" not in decision.reason


def test_removing_files_of_root_with_nested_root_is_not_denied(own_project: Project) -> None:
    own_project.workspace.add_root(own_project.root / "src")

    assert own_project.run("rm -rf *", mode="yolo").effect == "allow"
    assert own_project.run("rm -rf ..", mode="yolo").effect == "deny"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/usr/bin/x", "/bin/x", "/lib/x", "/boot/x", "/sys/x"]
)
def test_workspace_at_root_folder_asks_for_edits_of_system_files(tmp_path: Path, path: str) -> None:
    with closing(Workspace(["/"], "/")) as workspace:
        gate = PermissionEngine(workspace, PolicySet(), home=tmp_path)
        project_file = gate.decide([_edit("/app/x.py")])
        system_file = gate.decide([_edit(path)])
        ruled = PermissionEngine(
            workspace, PolicySet(rules=(allow(f"edit:{os.path.realpath(path)}"),)), home=tmp_path
        )

        assert (project_file.effect, "home folder" in project_file.reason) == ("ask", True)
        assert (system_file.effect, system_file.policy) == ("ask", "default")
        assert "operating system" in system_file.reason
        assert ruled.decide([_edit(path)]).effect == "allow"
        assert gate.decide([Claim("read", "/etc/hostname")]).effect == "allow"


def test_workspace_within_system_folder_can_be_edited(tmp_path: Path) -> None:
    source = Path("/usr/src")
    with closing(Workspace([source], source)) as workspace:
        gate = PermissionEngine(workspace, PolicySet(), home=tmp_path)

        assert gate.decide([_edit("/usr/src/x.py")]).effect == "allow"
        assert gate.decide([_edit("/usr/bin/x")]).effect == "ask"


def _edit(path: str) -> Claim:
    return Claim("edit", path)
