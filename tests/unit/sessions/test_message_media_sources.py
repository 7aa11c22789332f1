import pytest

from checkpoints.formats.parse_message_parts import ImagePart
from harness_site.sessions import message_media_sources
from harness_site.sessions.message_media_sources import ImageSource


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("data:image/png;base64,AAAA", ImageSource(embedded=True)),
        ("https://a.example/b.png", ImageSource(link="https://a.example/b.png")),
        (
            "data:image/svg+xml;base64,AAAA",
            ImageSource(words="The image is not shown: data:image/svg+xml, 30 bytes. Its message contains it as text."),
        ),
        (
            'javascript:alert("x")',
            ImageSource(
                words='The image is not shown: javascript:alert("x"), 21 bytes. Its message contains it as text.'
            ),
        ),
    ],
)
def test_only_embedded_images_are_shown(url: str, source: ImageSource) -> None:
    assert message_media_sources.build_image_source(ImagePart(url)) == source
