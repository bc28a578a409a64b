import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dirge_py
from dirge_py.tools.syntax_check import _FILES, check_syntax, language_of, load_grammar
from tests.security.sizes import size


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("a.py", "def f(:\n  return 1\n", "line 1, column 6: `(` is never closed"),
        ("a.py", "é = 'ü' + (1\n", "line 1, column 11: `(` is never closed"),
        ("a.py", "x = {1: [2}\n", "line 1, column 9: `[` is never closed"),
        (
            "a.py",
            "class A:\n    def x(self):\n        return 1)\n",
            "column 17: `)` closes nothing",
        ),
        ("a.py", 'x = "abc\ny = 1\n', 'column 5: the string that begins with `"` is never'),
        ("a.py", "if x\n    y\n", "line 1, column 5: expected ':'"),
        (
            "a.js",
            "function a() {\n  if (x) {\n    y()\n}\nb()\n",
            "line 2, column 10: `{` is never",
        ),
        ("a.js", "a = `x ${1} ;\nb = 2", "column 5: the string that begins here is never closed"),
        ("a.jsx", "const a = <A b={{c: 1}>x</A>\n", "`{` is never closed"),
        ("a.ts", "const x: number = f(1;\n", "column 20: `(` is never closed"),
        ("a.tsx", "const x = <a>{f(}</a>;\n", "column 16: `(` is never closed"),
        ("a.json", '{"a": 1,\n "b": [1,2}\n', "line 2, column 11: Expecting ',' delimiter"),
        ("lines.json", '{"a": 1}\n{"a": 2]\n', "line 2, column 8: Expecting ',' delimiter"),
        ("a.json", '{"a": 1;}', "column 8: Expecting ',' delimiter"),
        ("tsconfig.json", '{"a": [1, // x\n}', "line 1, column 7: `[` is never closed"),
        ("a.go", "package a\nfunc x() {\n  if a {\n}\nfunc y() {}\n", "line 3, column 8: `{`"),
        ("a.rs", "fn main() {\n  let x = vec![1,2;\n}\n", "line 2, column 15: `[` is never"),
        ("a.java", "class A { void x() { }\n", "`{` is never closed"),
        ("a.c", "int main(void) {\n  if (x) {\n  return 0;\n}\n", "line 2, column 10: `{`"),
        ("a.c", "/* abc\nint x;\n", "the comment that begins with `/*` is never closed"),
        ("a.cpp", "int x() { return a[1; }", "column 19: `[` is never closed"),
        ("a.css", "a { color: red;\nb { x: y }\n", "line 1, column 3: `{` is never closed"),
        ("a.html", '<div><b class="x>a</b></div>', 'the string that begins with `"` is never'),
        ("a.toml", "a = [1, 2\nb = 2\n", "line 2, column 1: Unclosed array"),
        ("a.yaml", "a: [1, 2\nb: c\n", "line 2, column 2: "),
        ("a.yaml", "a: [1, 2\nb: c\n", "flow sequence from line 1"),
        ("a.rb", "def a\n  if x\n  end\n", "`def` has no `end`"),
        ("a.sh", "if x; then\n echo $(ls\nfi\n", "line 2, column 7: `$(` is never closed"),
        ("a.sh", "if true; then\n echo a\n", "`fi` is missing"),
    ],
)
def test_syntax_error_is_reported_with_line_column_and_delimiter(path, text, words):
    assert words in check_syntax(path, "", text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tsconfig.json", '{"a": 1, // said\n}'),
        (".vscode/settings.json", '{"a": [1, 2,], /* said */}'),
        ("a.json", '{"a": 1, // said\n}'),
        ("a.jsonc", '{"a": 1,}'),
        ("a.json", '{"a": "one\ttab", "b": [1]// said\n}'),
        ("a.json", '{"a": "one\ttab"}'),
        ("a.json", "\ufeff[1]"),
        ("a.toml", "\ufeffa = 1\n"),
        ("lines.json", '{"a": 1}\n{"a": 2}\n'),
        ("a.html", "<ul>{% for a in b %}<li {{ a }}>{% endfor %}</ul>"),
        ("a.html", '<p>it\'s < 3 and "so" on'),
        ("chart/values.yaml", "a: {{ .Values.x }}\n{{- if b }}\nc: d\n{{- end }}\n"),
        ("{{cookiecutter.name}}/a.py", "x = (\n"),
        ("a.py", "{% if x %}\nimport y\n{% endif %}\n"),
        ("a.py", 'print "old"\n'),
        ("a.c", "#ifdef A\nif (x) {\n#else\nif (y) {\n#endif\n}\n"),
        ("a.h", "namespace [[deprecated]] a {}\nFOO(bar)\nBAZ\nint x;\n"),
        ("a.sh", 'case "$1" in\n  a) x ;;\n  (b) y ;;\nesac\n'),
        ("a.sh", "echo (" + "{\U00050700" * 3),
        ("a.unknown", "((("),
        ("Makefile", "((("),
        ("a.py", "(" + "\ud800"),
        ("a.py", "x = (" + " " * (1 << 20)),
        ("a.py", "x = (" + "é" * (1 << 19)),
        (".github/workflows/ci.yml", "on: push\nx: ${{ a.b }}\nrun: |\n  a: b: c\n"),
    ],
)
def test_text_that_may_be_valid_is_accepted(path, text):
    assert check_syntax(path, "", text) == ""


def test_broken_file_may_be_edited_without_new_errors():
    broken = "x = (1\ny = 2\n"

    assert check_syntax("a.py", broken, "x = (1\ny = 3\n") == ""
    assert check_syntax("a.py", broken, "x = 1\ny = 3\n") == ""


@pytest.mark.parametrize(
    ("path", "broken", "further", "words"),
    [
        ("a.json", '{"a": 2;\n"b": [3]}', '{"a": 2;\n"b": [3;]}', "line 1, column 8: Expecting"),
        ("a.toml", "a = = 1\nb = 2\n", "a = = 1\nb = = 2\n", "line 1, column 5: Invalid value"),
        ("a.yaml", "a: [1, 2\nb: c\n", "a: [1, 2\nb: 'c\n", "is never closed"),
    ],
)
def test_new_error_in_broken_file_is_reported(path, broken, further, words):
    assert check_syntax(path, broken, broken.replace("2", "5")) == ""
    assert words in check_syntax(path, broken, further)


def test_without_grammar_broken_file_may_be_edited(monkeypatch):
    monkeypatch.setitem(sys.modules, "tree_sitter_toml", None)
    load_grammar.cache_clear()

    assert check_syntax("a.toml", "a = = 1\nb = 2\n", "a = = 1\nb = = 2\n") == ""
    assert "Invalid value" in check_syntax("a.toml", "a = 1\n", "a = = 1\n")
    load_grammar.cache_clear()


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ('{\n "a": "https://x.org/b,\n "c": "d"\n}', "line 2, column 24: Invalid control"),
        ('{\n "a": https://x.org/b",\n "c": "d"\n}', "line 2, column 7: Expecting value"),
        ('{\n "a": ["src/**/*.py, "b"],\n "c": "d"\n}', "line 2, column 23: Expecting ',"),
    ],
)
def test_url_or_glob_after_lost_quote_is_not_a_json_comment(after, words):
    assert words in check_syntax("package.json", '{"a": "b"}', after)


def test_many_json_values_are_checked_within_time_limit():
    began = time.perf_counter()

    assert check_syntax("a.json", "", "[1]\n" * 200_000 + "[1") != ""
    assert time.perf_counter() - began < 4


def test_new_syntax_error_is_reported_instead_of_existing_error():
    before = "function a() { b(1; }\nfunction c() { d(2); }\n"

    words = check_syntax("a.js", before, before.replace("d(2)", "d(2"))

    assert words == "line 2, column 17: `(` is never closed"


def test_new_python_syntax_is_accepted():
    assert (
        check_syntax("a.py", "", "type X[T] = list[T]\nmatch x:\n    case {'a': b}: pass\n") == ""
    )


def test_check_that_takes_too_long_accepts_text():
    began = time.perf_counter()

    assert check_syntax("a.js", "", "<a " * 340_000) == ""
    assert time.perf_counter() - began < 4


def test_every_language_has_a_grammar():
    assert all(load_grammar(language) for language in _FILES)
    assert language_of("x/Dockerfile") is None


def test_only_needed_grammar_is_imported():
    program = (
        "import sys; from dirge_py.tools.syntax_check import check_syntax;"
        "check_syntax('a.json', '', '['); check_syntax('a.go', '', 'x');"
        "print([m for m in sys.modules if m.startswith('tree_sitter_') and '.' not in m])"
    )
    folder = Path(dirge_py.__file__).parents[1]

    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True)

    assert done.stdout.decode().strip() == "['tree_sitter_go']", done.stderr


PIECES = st.sampled_from(
    [
        *"()[]{}\"'`<>=:;,.#$\\/ \n\té",
        "def ",
        "if ",
        "end",
        "${",
        "<<E\n",
        "/*",
        "//",
        "0x",
        "\U0001f600",
    ]
)


@settings(max_examples=size(50, 150))
@given(st.sampled_from(sorted(_FILES)), st.lists(PIECES, max_size=30), st.lists(PIECES, max_size=9))
@example("yaml", [], ["`"])
def test_any_text_is_checked_without_exception_and_unchanged_text_is_accepted(
    language, pieces, more
):
    endings = {"bash": "sh", "javascript": "js", "python": "py", "ruby": "rb", "rust": "rs"}
    path = f"a.{endings.get(language, language)}"
    text = "".join(pieces)

    assert check_syntax(path, text, text) == ""
    assert isinstance(check_syntax(path, text, text + "".join(more)), str)


@given(
    st.recursive(st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_valid_json_is_accepted(value):
    assert check_syntax("a.json", "[", json.dumps(value)) == ""
