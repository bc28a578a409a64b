"""A project with everything attackers use, and random command lines made of it."""

import os
import random
from pathlib import Path

from tests.permission.conftest import Project

SECRET = "CANARY-OF-A-SECRET"
COMMANDS = [
    "ls", "cat {w}", "head -1 {w}", "wc -l {w}", "sort {w}", "sort {w} {w}", "grep -h '' {w}",
    "uniq {w} {w}", "sed -n 1p {w}",
    "find {w} -name 'a*'", "find . {w} {w}", "echo {w}", "test {t}",
    "[ {t} ]", "[ {t} ] && cat {w}", "tail {w}", "diff {w} {w}", "tr a {w}", "cut -c1- {w}",
    "nl {w}", "date {w}", "file {w}", "stat {w}", "du {w}", "basename {w}", "sleep {w}", "cd {w}",
    "git status {w}", "git log -1 {w}", "git diff {w}", "git show {w}", "git grep x {w}",
    "rg -h {w} {w}", "cat < {w}", "wc {w} < {w}", "type {w}", "which {w}", ": {w}", "true {w}",
    "touch P", "rm a", "tee {w}", "sh x.sh", "eval {w}", "read f", "$f {w}", "{w}", "realpath {w}",
]  # fmt: skip
WORDS = [
    "a", "b", "$f", '"$f"', "${f}", "'$f'", "*", "?", "*.txt", "src/*", "./*", "-*", "[a-z]*",
    ".e*", ".env", "./.env", "src/../.env", "slink", "link/x", "link", "..", "../out", "-o",
    "/etc/passwd",
    "-oP", "--output=P", "--", "-", "-exec", "';'", "-delete", "--pre=./x.sh", "$?", "$HOME", "~",
    "$PWD", '"$PWD"/.env', "> P", ">P", "2>P", ">&P", ">> P", "< .env", "< slink", "<> a",
    "# touch P", "#", "\\", "'", '"', "$(touch P)", "`touch P`", "<(touch P)", "{{a,.env}}", "!",
    "& touch P", "| touch P", "; touch P", "&& rm a", "\n", "\ntouch P", "\r", "\t", "x=1", "P",
    "'a b'", '"a b"', "$IFS", "$'\\x2eenv'", ".en''v", ".e\"$f\"", '"$f"nv', "f", "src", "1", "0",
]  # fmt: skip
TESTS = [
    "-f {w}", "-v 'q[$(touch P)]'", "{w} = {w}", "{w} -eq 0", "'q[$(touch P)]' -eq 0", "! {w}",
    "{w} -a {w}", "-n {w} -o -v 'q[$(touch P)]'", "'(' {w} ')'", "-R {w}", "{w}", "-t 'q[$(id)]'",
    "{w} -nt {w}", "{w} {w}", "{w} {w} {w} {w}", "-z {w} -a -f {w}",
]  # fmt: skip
SHAPES = [
    "{c}", "{c}; {c}", "{c} && {c}", "{c} || {c}", "{c} | {c}", "! {c}", "{c} # {w}\n{c}",
    "if {c}; then {c}; fi", "if {c}; then {c}; else {c}; fi", "for f in {w} {w}; do {c}; done",
    "for f in {w}; do {c}; {c}; done", "for f in {w}; do for g in {w}; do {c}; done; done",
    "for f in {w}\ndo\n{c}\ndone", "cd {w} && {c}", "{c}\n{c}", "# {c}\n{c}", "{c} {w} {w}",
    "if [ {t} ]; then {c}; fi", "for f in {w}; do if [ {t} ]; then {c}; fi; done | {c}",
]  # fmt: skip


def attack_project(folder: Path) -> Project:
    """Return a project with links, secrets and files whose names are options."""
    made = Project((folder / "home").resolve())
    root = made.root
    (made.home / "outside").mkdir()
    (made.home / "outside/x").write_text(SECRET)
    (made.home / "out").write_text(SECRET)
    (made.home / "out.txt").write_text(SECRET)
    (made.home / ".ssh").mkdir()
    (made.home / ".ssh/id_rsa").write_text(SECRET)
    (root / ".env").write_text(SECRET)
    (root / "link").symlink_to(made.home / "outside")
    (root / "slink").symlink_to(root / ".env")
    (root / "flink").symlink_to(made.home / "out")
    (root / "sub").mkdir()
    (root / "sub/.env").write_text(SECRET)
    (root / "a.txt").write_text("text\n")
    for name in ("x.sh", "-oP", "--output=P", "--pre=.x", "--files0-from=.env", "a b"):
        (root / name).write_text("touch P\n")
    (root / "x.sh").chmod(0o755)
    os.mkfifo(root / "fifo")
    return made


def random_line(choice: random.Random) -> str:
    def filled(text: str) -> str:
        for sign, ways in (("{c}", COMMANDS), ("{t}", TESTS), ("{w}", WORDS)):
            while sign in text:
                text = text.replace(sign, choice.choice(ways), 1)
        return text.replace("{{", "{").replace("}}", "}")

    return filled(choice.choice(SHAPES))
