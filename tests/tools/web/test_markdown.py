import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.tools.web.markdown import MAX_CHARS, MAX_ELEMENTS, html_to_markdown
from dirge_py.tools.web.url import parse_url
from tests.security.sizes import size

SOURCE = parse_url("https://a.example/docs/page")


def text_of(html: str) -> str:
    return html_to_markdown(html, SOURCE).text


def test_the_main_part_is_shown_and_not_what_is_around_it() -> None:
    words = "word " * 60
    page = f"<nav>NAV</nav><div>ASIDE</div><main><h1>Head</h1><p>{words}</main><footer>F</footer>"
    assert text_of(page) == f"# Head\n\n{words.strip()}"
    assert text_of(page.replace("main", "article")) == f"# Head\n\n{words.strip()}"


def test_a_main_part_without_text_is_not_taken_for_the_page() -> None:
    assert "the story" in text_of("<main><p>menu</p></main><p>the story</p>")


def test_the_title_is_one_line() -> None:
    assert html_to_markdown("<title> A &amp;\n B </title><p>x", SOURCE).title == "A & B"


def test_links_are_absolute_and_lead_to_the_web() -> None:
    page = """<a href="x?a=1#part">1</a> <a href="//b.example/y">2</a> <a href="#here">3</a>
    <a href="javascript:alert(1)">4</a> <a href="http://me@c.example/">5</a> <a name="n">6</a>"""
    assert text_of(page) == (
        "[1](https://a.example/docs/x?a=1#part) [2](https://b.example/y) 3 4 5 6"
    )


def test_the_base_of_a_page_counts() -> None:
    page = '<base href="https://b.example/d/"><a href="x">1</a>'
    assert text_of(page) == "[1](https://b.example/d/x)"


def test_pictures_are_their_words() -> None:
    page = 'a <img src="https://b.example/?leak=1" alt="a cat"> b <img src="data:x"> c'
    assert text_of(page) == "a (image: a cat) b c"


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>no()</script>",
        "<style>no{}</style>",
        "<!-- no -->",
        "<noscript>no</noscript>",
        "<template>no</template>",
        "<p hidden>no</p>",
        '<p aria-hidden="true">no</p>',
        '<p style="color:red;display: NONE">no</p>',
        '<span style="visibility:hidden">no</span>',
        "<iframe srcdoc='no'>no</iframe>",
        "<textarea>no</textarea>",
        "<select><option>no</select>",
        "<dialog>no</dialog>",
    ],
)
def test_what_people_do_not_see_is_left_out(hidden: str) -> None:
    assert text_of(f"<p>before</p>{hidden}<p>after</p>") == "before\n\nafter"


def test_code_stays_as_it_is() -> None:
    assert text_of("<pre><code>a &lt; b\n  *c*\n</code></pre>") == "```\na < b\n  *c*\n```"


def test_tables_of_figures_are_tables() -> None:
    page = """<table><caption>c</caption><thead><tr><th>a<th>b</thead>
    <tr><td><a href=x>1</a><td>2|3</tr><tr><td>only</table>"""
    assert text_of(page) == (
        "| a | b |\n| --- | --- |\n| [1](https://a.example/docs/x) | 2\\|3 |\n| only |  |"
    )


def test_tables_that_lay_out_a_page_are_dissolved() -> None:
    page = "<table><tr><td>left<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>"
    assert text_of(page) == "left\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_scripts_do_not_count_for_the_length_of_a_page() -> None:
    page = f"<SCRIPT>{'x' * MAX_CHARS}</script ><p>words</p><style>{'x' * MAX_CHARS}"
    article = html_to_markdown(page, SOURCE)
    assert (article.text, article.is_whole) == ("words", True)


def test_the_end_of_a_very_long_page_is_not_looked_at() -> None:
    article = html_to_markdown(f"<p>first</p><pre>{'x' * MAX_CHARS}</pre><p>last</p>", SOURCE)
    assert article.text.startswith("first")
    assert "last" not in article.text
    assert not article.is_whole


def test_a_page_of_very_many_elements_is_cut_too() -> None:
    article = html_to_markdown(f"<p>first</p>{'<br>' * MAX_ELEMENTS}last", SOURCE)
    assert (article.text, article.is_whole) == ("first", False)


PIECES = """<table>,<tr>,<td>,</table>,<a href=/x>,</a>,<p>,<div hidden>,</div>,<ul><li>,text,<,&,
<pre>,</pre>,<main>,</main>,<img alt=i>,|,<title>,</title>,<base href=y>,<b>,</b>"""
HTML = st.lists(st.sampled_from(PIECES.split(",")), max_size=40)


@settings(max_examples=size(33, 100))
@given(HTML.map(" ".join) | st.text(max_size=80))
def test_any_page_becomes_text(page: str) -> None:
    text = text_of(page)
    assert "<script" not in text
    assert text == text.strip()
