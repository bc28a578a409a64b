import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.tools.web.url import ParsedUrl, parse_reference, parse_url
from dirge_py.types.errors import ToolFailed

ODD = st.text(
    st.sampled_from("htps:/.@[]%#?\\ \t\0aAxX0127.fF٣１。。ß\u202e\ud800-_~+&="), max_size=40
)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://Example.COM", "http://example.com/"),
        ("HTTPS://example.com:443/a?b=c#d", "https://example.com/a?b=c"),
        ("http://example.com.:8080", "http://example.com:8080/"),
        ("https://bücher.example/ä?q=ö|x", "https://xn--bcher-kva.example/%C3%A4?q=%C3%B6%7Cx"),
        ("https://faß.example", "https://xn--fa-hia.example/"),
        ("http://a.example/100%/%41", "http://a.example/100%25/%41"),
        ("http://a.example/b/../c/./d/..", "http://a.example/c/"),
        ("http://a.example/../../b", "http://a.example/b"),
        ("http://a.example?x=/../", "http://a.example/?x=/../"),
        ("http://[2606:4700:0:0::1111]/", "http://[2606:4700::1111]/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
    ],
)
def test_url_is_normalized(text: str, url: str) -> None:
    assert parse_url(text).url == url


def test_parsed_url_has_scheme_host_port_path_and_address() -> None:
    assert parse_url("https://[::1]:8443/x?y") == ParsedUrl(
        scheme="https", host="::1", port=8443, path="/x?y", address=ipaddress.ip_address("::1")
    )
    assert parse_url("https://[::1]:8443/x").place == "[::1]:8443"


@given(ODD | st.text(max_size=60) | ODD.map("http://{}".format))
def test_parsed_url_parses_to_itself(text: str) -> None:
    try:
        target = parse_url(text)
    except ToolFailed:
        return
    assert target.url.isascii()
    assert parse_url(target.url) == target


@given(ODD | st.text(max_size=60))
def test_any_reference_is_resolved_or_refused(reference: str) -> None:
    base = parse_url("https://a.example/b/c")
    try:
        target = parse_reference(reference, base)
    except ToolFailed:
        return
    assert parse_url(target.url) == target


def test_references_are_resolved_against_base_url() -> None:
    base = parse_url("https://a.example/b/c?d")
    assert parse_reference("e?f", base).url == "https://a.example/b/e?f"
    assert parse_reference("//b.example/x", base).url == "https://b.example/x"
    assert parse_reference("?y", base).url == "https://a.example/b/c?y"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("example.com/x", "does not begin with http"),
        ("ftp://example.com/", "only http and https"),
        ("http://me@example.com/", "user name"),
        ("http://2130706433/", "unusual spelling of an address"),
        ("http://example.com/a b", "U+0020"),
        ("http://exam\u200bple.com/", "U+200B"),
        ("http://example.com\\@127.0.0.1/", "backslash"),
        ("http://example.com:70000/", "no port 70000"),
        ("http://example.com/" + "a" * 5000, "at most 4096"),
    ],
)
def test_refused_url_error_gives_reason(text: str, words: str) -> None:
    with pytest.raises(ToolFailed, match=words.replace("+", r"\+")):
        parse_url(text)


@pytest.mark.parametrize(
    "control", ["\0", "%00", "\t", "\n", "\r", "\x1b", "\x7f", "\u00ad", "%0a"]
)
@pytest.mark.parametrize("host", ["example.com{}.evil.org", "127.0.0.1{}.example.com", "{}a.org"])
def test_host_with_control_character_is_refused(host: str, control: str) -> None:
    for url in (f"http://{host.format(control)}/", f"http://{host.format(control)}:8080"):
        with pytest.raises(ToolFailed):
            parse_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://x@127.0.0.1/", "http://example.com@127.0.0.1/", "http://example.com:80@127.0.0.1/",
        "http://a:b@[::1]/", "http://@127.0.0.1/", "http://example.com%40127.0.0.1/",
        "http://example.com\\@127.0.0.1/", "http://example.com#@127.0.0.1\\/", "http:///x@[::1]/",
    ],
)  # fmt: skip
def test_user_name_cannot_disguise_host(url: str) -> None:
    try:
        target = parse_url(url)
    except ToolFailed:
        return
    assert target.host == "example.com"
