"""The web tools in the whole program: disabled until the network is allowed."""

from tests.support.fake_service import FakeService, ModelReply, RawReply
from tests.support.product import Product, product

__all__ = ["product"]

PAGE = RawReply(body="<title>T</title><p>the page", headers={"content-type": "text/html"})


def test_page_is_fetched_only_after_host_is_allowed(product: Product) -> None:
    with FakeService([PAGE]) as site:
        place = f"127.0.0.1:{site.port}"
        product.configure(f'[web]\nprivate_hosts = ["{place}"]\n')
        calls = [("webfetch", {"url": f"http://{place}/x"})]
        product.will(
            ModelReply(calls=calls),
            ModelReply(text="no"),
            ModelReply(calls=calls),
            ModelReply(text="yes"),
        )

        product.run("-p", "read it")
        assert "the page" not in product.sent_text()
        assert site.requests == []

        product.run("-p", "--allow", "network:127.0.0.1", "read it")
        assert "# T\\n\\nthe page" in product.sent_text()
        assert [seen.path for seen in site.requests] == ["/x"]


def test_h11_question_and_websearch_are_not_offered_if_unavailable(product: Product) -> None:
    product.will(ModelReply(calls=[("question", {"questions": "Which?"})]), ModelReply(text="done"))

    result = product.run("-p", "ask me")

    assert result.exit_code == 0
    offered = [tool["function"]["name"] for tool in product.service.requests[0].json["tools"]]
    assert "webfetch" in offered
    assert {"question", "websearch"}.isdisjoint(offered)
    assert "question" in product.service.requests[1].json["messages"][-1]["content"]
