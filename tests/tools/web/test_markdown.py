import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.tools.web.markdown import MAX_CHARS, MAX_ELEMENTS, html_to_markdown
from dirge_py.tools.web.url import parse_url
from tests.security.sizes import size

SOURCE = parse_url("https://a.example/docs/page")


def text_of(html: str) -> str:
    return html_to_markdown(html, SOURCE).text


def test_main_part_of_page_is_shown_without_navigation() -> None:
    words = "word " * 60
    page = f"<nav>NAV</nav><div>ASIDE</div><main><h1>Head</h1><p>{words}</main><footer>F</footer>"
    assert text_of(page) == f"# Head\n\n{words.strip()}"
    assert text_of(page.replace("main", "article")) == f"# Head\n\n{words.strip()}"


def test_main_part_without_text_is_ignored() -> None:
    assert "the story" in text_of("<main><p>menu</p></main><p>the story</p>")


def test_page_title_is_one_line() -> None:
    assert html_to_markdown("<title> A &amp;\n B </title><p>x", SOURCE).title == "A & B"


def test_links_are_absolute_http_urls() -> None:
    page = """<a href="x?a=1#part">1</a> <a href="//b.example/y">2</a> <a href="#here">3</a>
    <a href="javascript:alert(1)">4</a> <a href="http://me@c.example/">5</a> <a name="n">6</a>"""
    assert text_of(page) == (
        "[1](https://a.example/docs/x?a=1#part) [2](https://b.example/y) 3 4 5 6"
    )


def test_base_element_is_applied_to_links() -> None:
    page = '<base href="https://b.example/d/"><a href="x">1</a>'
    assert text_of(page) == "[1](https://b.example/d/x)"


def test_images_become_their_alt_text() -> None:
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
def test_hidden_elements_are_left_out(hidden: str) -> None:
    assert text_of(f"<p>before</p>{hidden}<p>after</p>") == "before\n\nafter"


def test_code_block_is_kept_verbatim() -> None:
    assert text_of("<pre><code>a &lt; b\n  *c*\n</code></pre>") == "```\na < b\n  *c*\n```"


def test_data_tables_become_markdown_tables() -> None:
    page = """<table><caption>c</caption><thead><tr><th>a<th>b</thead>
    <tr><td><a href=x>1</a><td>2|3</tr><tr><td>only</table>"""
    assert text_of(page) == (
        "| a | b |\n| --- | --- |\n| [1](https://a.example/docs/x) | 2\\|3 |\n| only |  |"
    )


def test_layout_tables_are_flattened() -> None:
    page = "<table><tr><td>left<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>"
    assert text_of(page) == "left\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_scripts_and_styles_do_not_count_toward_length() -> None:
    page = f"<SCRIPT>{'x' * MAX_CHARS}</script ><p>words</p><style>{'x' * MAX_CHARS}"
    article = html_to_markdown(page, SOURCE)
    assert (article.text, article.is_whole) == ("words", True)


def test_very_long_page_is_truncated() -> None:
    article = html_to_markdown(f"<p>first</p><pre>{'x' * MAX_CHARS}</pre><p>last</p>", SOURCE)
    assert article.text.startswith("first")
    assert "last" not in article.text
    assert not article.is_whole


def test_page_with_too_many_elements_is_truncated() -> None:
    article = html_to_markdown(f"<p>first</p>{'<br>' * MAX_ELEMENTS}last", SOURCE)
    assert (article.text, article.is_whole) == ("first", False)


PIECES = """<table>,<tr>,<td>,</table>,<a href=/x>,</a>,<p>,<div hidden>,</div>,<ul><li>,text,<,&,
<pre>,</pre>,<main>,</main>,<img alt=i>,|,<title>,</title>,<base href=y>,<b>,</b>"""
HTML = st.lists(st.sampled_from(PIECES.split(",")), max_size=40)


@settings(max_examples=size(33, 100))
@given(HTML.map(" ".join) | st.text(max_size=80))
def test_any_html_converts_to_text(page: str) -> None:
    text = text_of(page)
    assert "<script" not in text
    assert text == text.strip()
