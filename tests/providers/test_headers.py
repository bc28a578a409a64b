import pytest

from dirge_py.providers.client import bearer_header, request_headers
from dirge_py.types.errors import ProviderError


def test_later_headers_override_earlier_ones_in_any_case():
    assert request_headers({"Accept": "a", "x-b": "1"}, {"ACCEPT": "b"}) == {
        "user-agent": "dirge",
        "accept": "b",
        "x-b": "1",
    }


def test_anthropic_beta_headers_are_joined():
    assert request_headers({"anthropic-beta": "a"}, {"Anthropic-Beta": "b,c"}) == {
        "user-agent": "dirge",
        "anthropic-beta": "a,b,c",
    }


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-sécret", "sk-\x00secret"])
def test_unsendable_key_error_does_not_show_key(key):
    with pytest.raises(ProviderError) as refused:
        request_headers(bearer_header(key))

    assert "`authorization`" in refused.value.message
    assert "secret" not in f"{refused.value!r} {refused.value.raw} {refused.value.hint}"
