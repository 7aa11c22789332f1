"""Images and recordings of messages, as a page shows them: embedded, as a link, or described in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext

from checkpoints.formats.parse_message_parts import AudioPart, ImagePart
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden, mask_safe_link_or_return_empty
from harness_site.core.rendering.text_shortening import format_byte_size, get_byte_size

#: Image types that a page embeds; none of them can contain a script.
DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp|avif));base64,([A-Za-z0-9+/=\s]+)\Z", re.ASCII)
#: Recordings that a page plays, by the media types that messages use; none of them can contain a script.
_AUDIO_TYPES: Final = {
    **dict.fromkeys(("mpeg", "mp3"), "audio/mpeg"),
    **dict.fromkeys(("wav", "wave", "x-wav", "vnd.wave"), "audio/wav"),
    **dict.fromkeys(("mp4", "m4a", "x-m4a"), "audio/mp4"),
    **dict.fromkeys(("flac", "x-flac"), "audio/flac"),
    **dict.fromkeys(("ogg", "opus"), "audio/ogg"),
    "aac": "audio/aac",
    "webm": "audio/webm",
}
_AUDIO_URL: Final = re.compile(
    r"data:audio/([\w.-]{1,20})(?:; ?codecs=[\w.,\"-]{1,40})?;base64,([A-Za-z0-9+/=\s]+)\Z", re.ASCII
)
#: Largest recording that is played, in characters of Base64.
MAX_AUDIO: Final = 32_000_000


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Source of an image: `embedded` data from the message, an external `link`, or a description in `words`."""

    embedded: bool = False
    link: str = ""
    words: str = ""


def build_image_source(image: ImagePart) -> ImageSource:
    if DATA_URL.match(image.url):
        return ImageSource(embedded=True)
    if link := mask_safe_link_or_return_empty(image.url):
        return ImageSource(link=link)
    kind, size = _describe_media_type_and_size(image.url)
    sentence = gettext("The image is not shown: %(kind)s, %(size)s. Its message contains it as text.")
    return ImageSource(words=sentence % {"kind": kind, "size": size})


@dataclass(frozen=True, slots=True)
class AudioSource:
    """Source of a recording: `embedded` data from the message of the type `media_type` with `size` in words, an
    external `link`, or a description in `words`."""

    embedded: bool = False
    media_type: str = ""
    size: str = ""
    link: str = ""
    words: str = ""


def parse_audio_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type and the Base64 data of a recording that can be played; None for anything else."""
    match = _AUDIO_URL.match(url) if len(url) <= MAX_AUDIO else None
    media_type = _AUDIO_TYPES.get(match[1].lower()) if match else None
    return (media_type, match[2]) if match and media_type else None


def build_audio_source(audio: AudioPart) -> AudioSource:
    found = parse_audio_data_url(audio.url)
    if found is not None:
        return AudioSource(embedded=True, media_type=found[0], size=format_byte_size(len(found[1]) * 3 // 4))
    if link := mask_safe_link_or_return_empty(audio.url):
        return AudioSource(link=link)
    kind, size = _describe_media_type_and_size(audio.url)
    sentence = gettext("The recording is not played: %(kind)s, %(size)s. Its message contains it as text.")
    return AudioSource(words=sentence % {"kind": kind, "size": size})


def _describe_media_type_and_size(url: str) -> tuple[str, str]:
    """Return the beginning of the address of a medium, which names its type, and its size in words."""
    return mask_and_reveal_hidden(url[:40].split(",")[0].split(";")[0]), format_byte_size(get_byte_size(url))
