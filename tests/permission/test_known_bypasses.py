"""Known ways around the permission engine; each stays closed."""

import time
from collections.abc import Callable

import pytest

from dirge_py.permission import recursive_reads
from dirge_py.permission.rules import Effect, Mode

from .conftest import Project, allow, ask, deny


@pytest.mark.parametrize(
    "command",
    [
        "cd && rm -rf *", "cd -P / && rm -rf *", "cd - && rm -rf *", "cd / && rm -rf *",
        "cd -L ..; rm -rf .", "cd a b; rm -rf *", "cd s*; rm -rf *", "pushd / && rm -rf *",
        "builtin cd / && rm -rf *", "eval 'cd /'; rm -rf *", "x=1; cd - && rm -rf *",
        "x=1; cd \"$Y\" && rm -rf *", "x=1; cd .. && cd .. && rm -rf *",
    ],
)  # fmt: skip
def test_destructive_command_after_cd_is_denied_despite_allow_rule(
    project: Project, command: str
) -> None:
    assert project.run(command, allow("execute:*")).effect == "deny"


@pytest.mark.parametrize(
    "command", ["cd -P /etc && cat passwd", "cd -; cat passwd", "cd && cat x", "cd s* && touch x"]
)
def test_command_after_allowed_cd_is_judged_in_its_folder(project: Project, command: str) -> None:
    assert project.run(command, allow("execute:cd *"), allow("execute:touch *")).effect == "ask"
    assert project.run("cd -P src && cat a.py", allow("execute:cd *")).effect == "allow"


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("cd src; cat ../x", "ask"), ("cd src\ncat ../x", "ask"), ("cd src || cat ../x", "ask"),
        ("cd src && cat ../x", "allow"), ("cd src && true; cat ../x", "ask"),
        ("cd src && cat a.py | head -1 ../x", "allow"), ("true || cd src && cat ../x", "ask"),
    ],
)  # fmt: skip
def test_command_after_cd_that_may_fail_is_judged_in_both_folders(
    project: Project, command: str, effect: Effect
) -> None:
    assert project.run(command).effect == effect


def test_read_only_part_beside_allowed_part_needs_hardening(project: Project) -> None:
    assert project.run("make && git status", allow("execute:make")).needs_hardening
    assert not project.run("make && git status").needs_hardening


def test_yolo_decision_reason_names_overruled_command(project: Project) -> None:
    decision = project.run("ls && make", mode="yolo")

    assert (decision.policy, "make" in decision.reason) == ("mode", True)


def test_diff_of_folder_with_symlink_leaving_workspace_asks(own_project: Project) -> None:
    (own_project.root / "src/f").symlink_to("/etc/passwd")

    for command in ("diff src .", "diff f src", "diff src f"):
        assert own_project.run(command).effect == "ask"


@pytest.mark.parametrize(
    "path",
    ["/proc/self/cwd/a", "/proc/1/root/etc", "/proc/thread-self/cwd/a", "/dev/stdin", "/dev/fd/0",
     "/proc/../proc/self/cwd/a", "//proc/self/cwd/a", "way/a", "src/../way/src/a.py"],
)  # fmt: skip
def test_process_specific_paths_ask(own_project: Project, path: str) -> None:
    (own_project.root / "way").symlink_to("/proc/self/cwd")
    gate = own_project.gate(allow("read:/**"), allow("edit:/**"))

    assert own_project.run(f"cat {path}").effect == "ask"
    assert gate.decide([own_project.claim("read", path)]).effect == "ask"
    assert gate.decide([own_project.claim("edit", path)]).effect == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cp -t .git/hooks a", "cp -t.git/hooks a", "cp -vt.git/hooks a",
        "cp --target-directory=.git/hooks a", "sed -i s/a/b/ .git/config",
        "sort -o .git/hooks/x a", "sudo rm .git/config", "bash -c 'rm .git/config'",
        "cd src && sed -i x ../.git/config", "sed -i x .gi*/config", "sudo touch .g*/con*",
        "rm " + " ".join(f"x{number}" for number in range(400)) + " .git/config",
    ],
)  # fmt: skip
def test_allow_rule_for_command_does_not_allow_protected_names(
    project: Project, command: str
) -> None:
    decision = project.run(command, allow("execute:*"))

    assert (decision.effect, decision.policy) == ("ask", "protected")


@pytest.mark.parametrize(
    "command",
    [
        "sudo rm src/a", "env rm src/a", "bash -c 'rm src/a'", "cp -t src a", "sed -i x src/a",
        "sort -o src/a b", "find src -delete", "git rm src/a", "cd src && echo x > a", "cp -tsrc a",
        "cd src && bash -c 'cd .. && rm src/a'", "dd of=src/a", "echo x > src/a",
    ],
)  # fmt: skip
def test_edit_deny_rule_applies_to_every_word_of_command(project: Project, command: str) -> None:
    assert project.run(command, deny("edit:src/**"), mode="yolo").effect == "deny"


def test_input_redirection_counts_as_read(project: Project) -> None:
    fed = project.run("cat < .env", deny("read:.env"), mode="yolo")
    own = project.run(f"cat < {project.state}/trust.json", mode="yolo")

    assert (fed.policy, own.policy) == ("deny-rule", "hard-deny")


@pytest.mark.parametrize(
    "command",
    ["find . " + "-exec rm {} + " * 4500, "find . " + "-exec rm {} + " * 1000, "rm a;" * 3000],
)
def test_long_command_is_decided_quickly(project: Project, command: str) -> None:
    gate = project.gate(deny("execute:git push *"), deny("execute:rm -x *"))
    claims = [project.execute(command)]
    gate.decide(claims)

    def timed() -> float:
        start = time.perf_counter()
        assert gate.decide(claims).effect == "ask"
        return time.perf_counter() - start

    assert min(timed() for _ in range(3)) < 0.5
    assert gate.decide([project.execute(command + "; git push")]).effect == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn notes .", "grep -r notes", "rg notes", "rg -i notes src .", "rg --hidden x .",
        "grep --recursive x .", "cd src && rg x ..", "grep -rn x . | head",
        "tar cf /tmp/x.tar .", "cp -r . /tmp/x", "bash -c 'grep -r x .'", "grep -r x . > out",
        "sudo rg x", "x=$(rg x .)", "rg --pre cat x .",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rule", ["read:notes.txt", "read:**/*.txt", "read:/**/notes.txt"])
def test_c21_recursive_search_over_file_of_deny_rule_is_denied(
    project: Project, command: str, rule: str
) -> None:
    assert project.run(command, deny(rule), mode="yolo").effect == "deny"


@pytest.mark.parametrize("options", ["", "--cached", "--untracked"])
def test_c21_git_grep_over_file_of_deny_rule_is_denied(own_project: Project, options: str) -> None:
    own_project.git("add", "notes.txt")

    for rule in ("read:notes.txt", "read:**/*.txt"):
        decision = own_project.run(f"git grep {options} notes", deny(rule), mode="yolo")
        assert decision.effect == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn x src",
        "rg x src",
        "git grep notes",
        "grep x README.md",
        "ls -R .",
        "find . -name x",
    ],
)
def test_c21_searches_without_file_of_deny_rule_are_allowed(project: Project, command: str) -> None:
    assert project.run(command, deny("read:notes.txt")).effect == "allow"
    assert project.run("rg notes").effect == "allow"


def test_c21_recursive_search_over_file_of_ask_rule_asks(project: Project) -> None:
    assert project.run("rg x", ask("read:notes.txt")).effect == "ask"
    assert project.run("rg x src", ask("read:notes.txt")).effect == "allow"


def test_c21_search_over_too_many_files_to_check_asks(
    own_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recursive_reads, "MAX_ENTRIES", 30)
    (own_project.root / "many").mkdir()
    for number in range(31):
        (own_project.root / f"many/{number}").touch()

    assert own_project.run("rg x many", deny("read:**/*.pem")).effect == "ask"
    assert own_project.run("rg x many", deny("read:secrets/**")).effect == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "rm src/*.py $X", "x=1; rm src/a*",
        "echo $X > src/[a]*", "rm {src,b}/a*", "bash -c 'rm s*/*'",
        "for f in src/*; do rm $f; done", "sudo sh -c 'rm src/?.py'",
    ],
)  # fmt: skip
def test_edit_deny_rule_applies_to_globs_in_commands_that_are_not_plain(
    project: Project, command: str
) -> None:
    assert project.run(command, deny("edit:src/a.py"), mode="yolo").effect == "deny"
    assert project.run(command, deny("edit:src/b.py"), mode="yolo").effect == "allow"


def test_submodule_with_core_worktree_of_its_own_folder_is_allowed(own_project: Project) -> None:
    other = own_project.home / "other"
    own_project.git("init", "-q", str(other))
    own_project.git("commit", "-q", "--allow-empty", "-m", "x", cwd=other)
    own_project.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "vendor/x"
    )
    settings = own_project.root / ".git/modules/vendor/x/config"
    assert "worktree" in settings.read_text()

    assert own_project.run("git status").effect == "allow"
    assert own_project.run("cd vendor/x && git log -1").effect == "allow"
    settings.write_text(settings.read_text().replace("../../../../vendor/x", "/etc"))
    assert "core.worktree" in own_project.run("git status").reason


@pytest.mark.parametrize(
    "command",
    [
        "git --config-env a.b=HOME push", "git --attr-source HEAD push", "prlimit git push",
        "git -c alias.x=push x", "git -c alias.x='!git push' x", "setpriv --reuid 0 git push",
        "uv run git push", "npx git push",
    ],
)  # fmt: skip
def test_deny_rule_finds_git_subcommand_behind_options_and_wrappers(
    project: Project, command: str
) -> None:
    assert project.run(command, deny("execute:git push *"), mode="yolo").effect == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git log --remerge-diff", "git show --diff-merges=remerge", "git log --diff-merges=r",
        "git log --format='%(describe)'", "git config --get sendemail.smtppass",
    ],
)  # fmt: skip
def test_git_commands_that_write_objects_run_git_or_print_passwords_ask(
    project: Project, command: str
) -> None:
    assert project.run(command).effect == "ask"


def quickest(work: Callable[[], object]) -> float:
    def timed() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    times = [timed()]
    while times[-1] > 0.1 and len(times) < 3:
        times.append(timed())
    return min(times)


def test_patterns_with_many_stars_are_matched_quickly(own_project: Project) -> None:
    own_project.root.joinpath("a" * 200).touch()
    gate = own_project.gate(deny("execute:*a*a*a*x"), deny("read:**/*a*a*a*x/**/*b*b*b*y/**/z"))
    deep = "/".join(["aaab"] * 200)

    for command in (f"ls {'*a' * 12}*b", f"foo {'a' * 4000}", f"foo {deep}"):
        assert quickest(lambda: gate.decide([own_project.execute(command)])) < 0.5  # noqa: B023


@pytest.mark.parametrize(
    "piece",
    ["a", "aGVsbG8", "a{ ", "{ ", "$(", "`", "'", '"', "((", ";", "|", "<<A ", "f(){ ", "f|f&",
     "${x", "${IFS", " ", "\\", "*", "[a", "/", "-", "!", "é", "{a..", "case ", "a:"],
)  # fmt: skip
def test_repeated_shell_syntax_is_decided_quickly(project: Project, piece: str) -> None:
    gate = project.gate(deny("execute:git push *"), deny("read:**/*.pem"))

    for start, size in (("", 15), ("rm -rf ", 15), ("git log ", 15), ("ls ", 127)):
        text = start + piece * (size * 1024 // len(piece))
        assert quickest(lambda: gate.decide([project.execute(text)])) < 0.5  # noqa: B023


def test_repeated_double_stars_match_like_one(project: Project) -> None:
    gate = project.gate(deny("read:**/**/a*.py/**"), deny("read:*rc/**/b*c*d/**/x"))

    assert gate.decide([project.claim("read", "src/a.py")]).effect == "deny"
    assert gate.decide([project.claim("read", "src/q/bbccdd/bcd/x")]).effect == "deny"
    assert gate.decide([project.claim("read", "src/q/bbccdde/x")]).effect == "allow"


def test_command_with_many_words_is_decided_quickly(project: Project) -> None:
    gate = project.gate(deny("read:**/.env"))
    moving = "; ".join(f"cd d{index} && ls x y z" for index in range(20))
    searching = "; ".join(["grep -r x ."] * 60)

    for command in (moving, searching, f"foo {' '.join(f'-abcd{n}' for n in range(2000))}"):
        assert quickest(lambda: gate.decide([project.execute(command)])) < 0.5  # noqa: B023


def test_many_globs_in_one_command_share_one_limit(own_project: Project) -> None:
    for index in range(300):
        own_project.root.joinpath(f"f{index}").touch()

    assert own_project.run("ls f*").effect == "allow"
    assert own_project.run(" ".join(["ls", *(f"f*{n}*" for n in range(300))])).effect == "ask"


@pytest.mark.parametrize("mode", ["standard", "yolo"])
def test_command_too_long_to_start_is_denied(project: Project, mode: Mode) -> None:
    decision = project.run("ls " + "x" * 200_000, allow("execute:*"), mode=mode)

    assert (decision.effect, decision.policy) == ("deny", "hard-deny")


@pytest.mark.parametrize(
    "command",
    [
        "pushd src; cat ../notes.txt", "eval 'cd src'; cat ../notes.txt", "cat $PWD/notes.txt",
        "cat ~+/notes.txt", "pushd src && cat a.py ../notes.txt", "cat ${PWD}/src/../notes.txt",
    ],
)  # fmt: skip
def test_read_deny_rule_applies_to_every_way_to_name_the_folder(
    project: Project, command: str
) -> None:
    assert project.run(command, deny("read:notes.txt"), mode="yolo").effect == "deny"
