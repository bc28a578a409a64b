"""Removals whose targets are in variables, parameters or input of the same command line."""

import pytest

from .conftest import Project


@pytest.mark.parametrize(
    "command",
    [
        'd=$HOME; rm -rf $d',
        'd=$HOME/; rm -rf "$d"',
        'd=$PWD/..; rm -rf $d',
        'd="$HOME"; rm -rf "$d"/*',
        'd=${HOME}; e=$d; rm -rf $e',
        'rm -rf ${X:-/}',
        'rm -rf ${X-/}',
        'rm -rf ${X:=/}',
        'rm -rf ${X:-~}',
        'rm -rf ${X:-/usr}',
        'rm -rf "${X:-/}"*',
        'rm -rf "${X:-$HOME/}"*',
        'rm -rf ${X:+/}',
        'rm -rf "${1:-/usr}"',
        'rm -rf ${X:-${Y:-/}}',
        'd=${X:-/}; rm -rf $d',
        'sudo rm -rf "${X:-/etc}"',
        "d=/ sh -c 'rm -rf $d'",
        "env d=/ sh -c 'rm -rf $d'",
        'set -- /usr; rm -rf "$@"',
        'set -- /usr; rm -rf $1',
        'f() { rm -rf "$1"; }; f /',
        'function f { rm -rf "$1"; }; f ~',
        'a=(/usr /etc); rm -rf "${a[@]}"',
        'a=(x /usr); rm -rf "${a[1]}"',
        'read d <<< /; rm -rf $d',
        'read -r d <<< /usr; rm -rf "$d"',
        'while read d; do rm -rf "$d"; done <<< /usr',
        'mapfile -t a <<< /usr; rm -rf "${a[@]}"',
        'printf -v d /; rm -rf $d',
        'd=/us; d+=r; rm -rf $d',
        'declare d=$HOME; rm -rf $d',
        'xargs rm -rf <<< /usr',
        'xargs rm -rf <<< "/ x"',
        'xargs rm -rf <<E\n/usr\nE',
        'bash -c \'rm -rf "$1"\' x /',
        'sh -c \'rm -rf "$@"\' x /usr',
        'rm -rf /proc/self/root/*',
        'rm -rf /proc/1/root/etc',
        'rm -rf /proc/$$/root/etc',
        'rm -rf /proc/self/cwd/..',
        'cd /proc/self/root && rm -rf *',
        'tar --remove-files -cf x.tar /etc',
        'tar -C / --remove-files -cf x.tar etc',
        'zip -rm x.zip /etc',
        'cd / && git clean -fdx',
        'git -C ~ clean -fdx',
        'dd if=/dev/zero of=$(ls /dev/sd*)',
        'd=/dev/sda; dd if=x of=$d',
        'dd if=/dev/zero of=${D:-/dev/sda}',
        'perl -e \'unlink glob "/etc/*"\'',
        "perl -e 'unlink </etc/*>'",
        'chmod -R 777 "${X:-/}"',
        'mv "${X:-/usr}" x',
    ],
)  # fmt: skip
def test_destructive_command_with_indirect_target_is_denied(project: Project, command: str) -> None:
    for mode in ("standard", "yolo"):
        decision = project.run(command, mode=mode)
        assert (decision.effect, decision.policy) == ("deny", "hard-deny"), mode


@pytest.mark.parametrize(
    "command",
    [
        'd=$HOME/.cache/x; rm -rf "$d"',
        'd=$PWD/build; rm -rf "$d"/*',
        'rm -rf "${X:-build}"',
        'rm -rf "${TMPDIR:-/tmp}/x"',
        'rm -rf "${X:?}/y"',
        'PREFIX=/usr; rm -rf "$BUILD"',
        'DESTDIR=/; rm -rf "$DESTDIR/opt/x"',
        'set -- a b; rm -rf "$@"',
        'f() { rm -rf "$1"; }; f build',
        'a=(x y); rm -rf "${a[@]}"',
        'read d <<< x; rm -rf $d',
        'while read -r f; do rm -f "$f"; done < list',
        '[ "$d" != / ] && rm -rf "$d"',
        'cd "$HOME" && rm -rf "$tmp"',
        'xargs rm -rf <<< build',
        'bash -c \'rm -rf "$1"\' x build',
        'tar --remove-files -cf x.tar build',
        'zip -r x.zip /etc',
        'cd src && git clean -fdx',
        'cd "$(git rev-parse --show-toplevel)" && git clean -fdx',
        'git -C / clean -n',
        'dd if=/dev/sda of=$(mktemp)',
        'perl -e \'unlink glob "build/*"\'',
        'python3 -c \'import os; os.remove("/".join(["a", "b"]))\'',
        'rm -rf /proc/self/root/tmp/x',
        'make PREFIX=/usr install; rm -rf "$BUILD_DIR"',
        'for d in a b; do rm -rf "$d"; done',
    ],
)  # fmt: skip
def test_harmless_command_with_indirect_target_is_allowed_in_yolo(
    project: Project, command: str
) -> None:
    decision = project.run(command, mode="yolo")

    assert (decision.effect, decision.reason) == ("allow", decision.reason)
