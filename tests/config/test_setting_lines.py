import tomllib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dirge_py.config.problems import dotted, key_lines, line_of
from tests.security.sizes import size


def test_key_lines_maps_every_key_to_line():
    text = '''a = 1  # b = 2
"quoted key" = """
[not.a.table]
c = 3
"""
[t] # comment
d.e = [
  1, # ]
  "]",
]
f = { x = 1, y = "}" }
[[t.list]]
g = 'x'
[[t.list]]
g = \'\'\'
h = 1\'\'\'
'''
    tomllib.loads(text)

    assert key_lines(text) == {
        ("a",): 1,
        ("quoted key",): 2,
        ("t",): 6,
        ("t", "d", "e"): 7,
        ("t", "f"): 11,
        ("t", "list", 0): 12,
        ("t", "list", 0, "g"): 13,
        ("t", "list", 1): 14,
        ("t", "list", 1, "g"): 15,
    }


def test_key_in_inline_table_has_line_of_table():
    assert line_of(("t", "f", "x"), {("t", "f"): 11}) == 11
    assert line_of(("other",), {("t",): 1}) is None


def test_setting_path_is_formatted_with_dots_and_indexes():
    assert dotted(("permission", "rule", 1, "op")) == "permission.rule[1].op"


@settings(max_examples=size(66, 200), deadline=None)
@example('"\\1"=')
@given(st.text(alphabet="ab.=[]{}\"'#\n \\1,", max_size=60))
def test_key_lines_ends_on_any_text(text):
    key_lines(text)
