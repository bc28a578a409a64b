"""The prefix rules that a question offers, and everything that they must not cover."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.lib.shell_lexer import NotPlain, lex
from dirge_py.permission.prefix_rules import offer_prefixes
from tests.security.sizes import size

from .conftest import Project, allow

OFFERED = {
    "pytest -q tests": ("pytest *",),
    "pytest tests/*.py": ("pytest *",),
    "python3 -m unittest": ("python3 -m unittest *",),
    "python -m pip install x": ("python -m pip install *",),
    "python -u tools/x.py --all": ("python -u tools/x.py *",),
    "node scripts/x.js": ("node scripts/x.js *",),
    "bash x.sh": ("bash x.sh *",),
    "make test": ("make test *",),
    "make -j4 test": ("make -j4 test *",),
    "npm run build -- x": ("npm run build *",),
    "npm test": ("npm test *",),
    "npx tsc --noEmit": ("npx tsc *",),
    "npx --yes prettier -w .": ("npx --yes prettier *",),
    "uv run pytest -q": ("uv run pytest *",),
    "uv run python x.py": ("uv run python x.py *",),
    "poetry run ruff check": ("poetry run ruff check *", "poetry run ruff *"),
    "timeout 60 make test": ("timeout 60 make test *",),
    "ruff check .": ("ruff check *", "ruff *"),
    "tsc -p .": ("tsc *",),
    "mkdir -p new/b": ("mkdir *",),
    "touch a": ("touch *",),
    "mv a b": ("mv *",),
    "sed -i s/a/b/ a": ("sed -i *",),
    "./gradlew test": ("./gradlew test *",),
    "./x.sh a b": ("./x.sh *",),
    ".venv/bin/pytest -q": (".venv/bin/pytest *",),
    ".venv/bin/python x.py": (".venv/bin/python x.py *",),
    "docker compose up -d": ("docker compose up *",),
    "go run ./cmd/x": ("go run ./cmd/x *",),
    "cargo run": ("cargo run *",),
    "prisma migrate dev": ("prisma migrate *", "prisma *"),
}


@pytest.mark.parametrize("command", OFFERED)
def test_offered_prefixes_are_listed_and_cover_the_command(project: Project, command: str) -> None:
    offer = offer_prefixes(lex(command)[0].words)

    assert (offer.patterns, offer.missing) == (OFFERED[command], "")
    for pattern in offer.patterns:
        assert project.run(command, allow(f"execute:{pattern}")).effect == "allow"


@pytest.mark.parametrize(
    "command",
    ["python", "python -c 1", "python -m timeit x", "python -m cProfile x.py", "node -e 1",
     "node --test", "bash -c make", "sh", "npx", "uv run", "uv run --with x pytest", "make",
     "make -C src test", "make test SHELL=./x", "mvn clean deploy", "npm exec x", "npm run",
     "docker run x", "docker compose run x", "git -C src push", "git bisect run x", "sudo make",
     "env make", "xargs make", "timeout 5 bash -c x", "rm -rf a", "curl x", "ssh x", "chmod +x a",
     "dotenv make", "foo -- make", "foo bash x", "sed -i 's/a/b/e' a", "sed 'w x' a", "tar xf a",
     "find . -delete", "psql x", "kill 1", "julia -e 1", "R -e 1", "gcc -o a a.c",
     "python -m IPython -c 1",
     "nohup nohup nohup nohup nohup make test", "uv run bash -c x", "npx node -e x"],
)  # fmt: skip
def test_command_without_a_safe_prefix_gets_a_reason_instead(command: str) -> None:
    offer = offer_prefixes(lex(command)[0].words)

    assert offer.patterns == ()
    assert offer.missing


OUTSIDE_OF_THE_PREFIX = {
    "pytest *": ("pytest --basetemp=src", "pytest --junitxml ../x", "pytest2 x", "./pytest x"),
    "make test *": ("make test deploy", "make test X=1", "make test -f other", "make -f x test",
        "make test 'X=$(shell id)'", "make test SHELL=./x", "make", "make testing",
        "make test --eval=x"),
    "./gradlew test *": ("./gradlew test publish", "./gradlew test -I x.gradle",
        "./gradlew test -p src", "./gradlew"),
    "mvn test *": ("mvn test deploy", "mvn test -Dexec.executable=x", "mvn test -f x"),
    "python -m pytest *": ("python -c 1", "python -m http.server", "python x.py",
        "python -m pytest --basetemp src", "python3 -m pytest"),
    "python x.py *": ("python y.py", "python -c 1 x.py", "python -m x.py"),
    "bash x.sh *": ("bash -c x.sh", "bash y.sh", "bash -x x.sh"),
    "npx tsc *": ("npx -p evil tsc", "npx -c x", "npx prettier x", "npx tsc --outDir src"),
    "uv run pytest *": ("uv run python x.py", "uv run --with evil pytest",
        "uv run pytest --basetemp src"),
    "npm run build *": ("npm run deploy", "npm run build --script-shell=./x",
        "npm run build --prefix src", "npm install x", "npm run build --node-options=-rx"),
    "timeout 60 make test *": ("timeout 60 make deploy", "timeout 60 make test deploy",
        "timeout 61 make test", "timeout 60 rm x"),
    "sed -i *": ("sed -i s/a/b/e a", "sed -i 's/a/b/w x' a", "sed -i 1e a", "sed -i 'w x' a",
        "sed -i -f a b", "sed -i s/a/b/ ../x", "sed -i s/a/b/ .git/config", "sed -i s/a/b/ /etc/x",
        "sed -i -e 'e id' a", "sed -i s/a/b/ *", "sed -i --expression='e id' a", "sed s/a/b/ a"),
    "mkdir *": ("mkdir ../x", "mkdir .git/x", "mkdir /tmp/x"),
    "mv *": ("mv a ../x", "mv a .git/hooks/x", "mv .env a", "mv -t /tmp a"),
    "touch *": ("touch /tmp/x", "touch .git/hooks/x"),
    "go test *": ("go test -exec ./x", "go test -toolexec ./x"),
    "cargo test *": ("cargo test --config x", "cargo test --manifest-path x"),
    "ruff check *": ("ruff check -o x", "ruff format", "ruff check --config x"),
    "./x.sh *": ("cd src && ./x.sh a", "cd src; ./x.sh", "x.sh", "./y.sh"),
    "node x.js *": ("cd src && node x.js", "node -r ./y x.js", "node -e 1 x.js"),
    "cmake *": ("cmake -E env sh", "cmake -P x"),
    "nohup nohup nohup nohup nohup make test *": ("nohup nohup make test deploy",),
    "jest *": ("jest --require ./x", "jest --exec x"),
}  # fmt: skip


@pytest.mark.parametrize("pattern", OUTSIDE_OF_THE_PREFIX)
def test_prefix_rule_does_not_cover_other_programs_targets_and_files(
    project: Project, pattern: str
) -> None:
    rule = allow(f"execute:{pattern}")

    effects = {text: project.run(text, rule).effect for text in OUTSIDE_OF_THE_PREFIX[pattern]}

    assert [text for text, effect in effects.items() if effect == "allow"] == []


HEADS = sorted(OFFERED)
TAILS = [
    "&& rm a", "; rm a", "| sh", "|| rm a", "& rm a", "\nrm a", "> out", ">> ../x", "2> x",
    "< a", "<<< a", "<(id)", "$(id)", "`id`", "\"$(id)\"", "${x:-$(id)}", "$((a[$(id)]))",
    "{a,b}", "~/x", "$X", "\\\nrm", "&> x", ">| x", "|& sh", "<<E\nx\nE", "# x\nrm a", "!x",
]  # fmt: skip
FRONTS = ["A=b ", "PATH=. ", "env ", "sudo ", "exec ", "eval ", "! ", "time ", "(", "{ ", "if ",
          "while ", "f() { ", "export A=b; ", "alias x=y; ", "cd /tmp && ", "cd .. ; "]  # fmt: skip
ANY = st.text(st.characters(min_codepoint=9, max_codepoint=126), max_size=12)


def rules_for(command: str) -> list[str]:
    return [f"execute:{one}" for one in offer_prefixes(lex(command)[0].words).patterns]


@settings(
    max_examples=size(150, 20_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(HEADS), st.sampled_from(TAILS), ANY, st.sampled_from(["", *FRONTS]))
def test_no_prefix_rule_allows_what_is_chained_redirected_or_substituted(
    project: Project, command: str, tail: str, more: str, front: str
) -> None:
    text = f"{front}{command} {tail}{more}"

    for rule in rules_for(command):
        assert project.run(text, allow(rule)).effect != "allow"


@settings(
    max_examples=size(150, 20_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(HEADS), st.sampled_from(FRONTS), ANY)
def test_no_prefix_rule_allows_an_assignment_or_wrapper_in_front(
    project: Project, command: str, front: str, more: str
) -> None:
    for rule in rules_for(command):
        assert project.run(f"{front}{command} {more}", allow(rule)).effect != "allow"


@settings(
    max_examples=size(200, 20_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(HEADS), ANY, st.sampled_from(["", " ", " a ", " && ", "\n", "; "]))
def test_whatever_a_prefix_rule_allows_begins_with_its_words(
    project: Project, command: str, more: str, between: str
) -> None:
    text = f"{command}{between}{more}"
    for rule in rules_for(command):
        if project.run(text, allow(rule)).effect != "allow":
            continue
        words = rule.removeprefix("execute:").removesuffix(" *").split()
        for part in lex(text):
            looks = project.run(part.text).effect == "allow"
            assert looks or list(part.argv[: len(words)]) == words


@settings(
    max_examples=size(200, 50_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(ANY)
def test_every_offered_prefix_names_what_runs(project: Project, text: str) -> None:
    try:
        parts = lex(text)
    except NotPlain:
        return
    for part in parts:
        for pattern in offer_prefixes(part.words).patterns:
            assert pattern.endswith(" *")
            assert pattern.split()[0] not in ("*", "python", "node", "bash", "sh", "env", "make")
