"""Images go only to models that accept them; others get a text."""

import json

import pytest

from dirge_py.providers.catalog import ModelProfile
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock, UserMessage
from tests.support.fake_service import ModelReply
from tests.support.provider_client import KINDS, Client

MESSAGE = UserMessage(
    content=(
        TextBlock("What is this?"),
        ImageBlock(asset_id="pic", media_type="image/png"),
        DocumentBlock(asset_id="pic", media_type="application/pdf"),
    )
)
PLACEHOLDER = "[An image (image/png) was here; you cannot see images.]"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("profile", "is_sent"),
    [
        (ModelProfile(images=True, max_output_tokens=9000), True),
        (ModelProfile(), True),
        (ModelProfile(max_output_tokens=9000), False),
        (ModelProfile(images=False), False),
    ],
)
async def test_image_is_sent_only_to_models_that_accept_images(
    http, serve, tmp_path, kind, profile, is_sent
):
    (tmp_path / "pic").write_bytes(b"looks like a picture")
    client = Client(http, kind, serve(ModelReply(text="x")))
    body = await client.sent(
        messages=(MESSAGE,), asset_dir=str(tmp_path), profile_of=lambda model: profile, system=""
    )
    sent = json.dumps(body)

    assert ("bG9va3MgbGlrZSBhIHBpY3R1cmU=" in sent, PLACEHOLDER in sent) == (is_sent, not is_sent)
