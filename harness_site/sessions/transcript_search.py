"""Search for words in a whole transcript as its reader sees it: masked text cannot be found.

Queries are parsed like those of the search over all sessions: a message has to contain every word, and words in quotes
as a phrase.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from checkpoints.formats import parse_message_parts
from checkpoints.formats.parse_message_parts import (
    AudioPart,
    CallPart,
    ImagePart,
    OtherPart,
    Part,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from harness_site.core.masking.masker import (
    get_masked_text_beginning,
    mask_text,
    mask_values_of_secret_fields_in_context,
)
from harness_site.core.rendering.json_tree import mask_and_dump_json
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions.json_and_text_excerpts import parse_json_container
from harness_site.sessions.selectors import find_words_errors_and_decisions
from harness_site.sessions.selectors.conversation_window import TranscriptVersion

#: Maximum number of hits counted in each direction.
LIMIT: Final = 500
#: Number of characters of the address of an image or a recording that are searched.
_ADDRESS: Final = 200


@dataclass(frozen=True, slots=True)
class TranscriptSearchResult:
    """Nearest hits before and after the position `here`, and the number of hits up to `LIMIT`."""

    query: SearchQuery
    here: int
    is_hit: bool
    previous: int | None
    following: int | None
    before: int
    after: int

    @property
    def has_hits(self) -> bool:
        return self.is_hit or bool(self.before or self.after)

    @property
    def is_count_before_exact(self) -> bool:
        return self.before <= LIMIT

    @property
    def is_count_after_exact(self) -> bool:
        return self.after <= LIMIT

    @property
    def limit(self) -> int:
        return LIMIT


def find_nearest_transcript_hits(
    transcript: TranscriptVersion, query: SearchQuery, here: int
) -> TranscriptSearchResult:
    """Find the hits nearest to the position `here`."""
    before = list(islice(_iterate_hit_positions(transcript, query, start=here, back=True), LIMIT + 1))
    after = list(islice(_iterate_hit_positions(transcript, query, start=here - 1), LIMIT + 2))
    is_hit = bool(after) and after[0] == here
    after = after[1:] if is_hit else after
    return TranscriptSearchResult(
        query=query,
        here=here,
        is_hit=is_hit,
        previous=before[0] if before else None,
        following=after[0] if after else None,
        before=len(before),
        after=len(after),
    )


def find_first_hit_position(transcript: TranscriptVersion, query: SearchQuery) -> int | None:
    return next(_iterate_hit_positions(transcript, query, start=-1), None)


def _iterate_hit_positions(
    transcript: TranscriptVersion, query: SearchQuery, *, start: int, back: bool = False
) -> Iterator[int]:
    for position, body in find_words_errors_and_decisions.iterate_messages_with_all_words(
        transcript, query.words, beyond=start, back=back
    ):
        parts = parse_message_parts.parse_message_parts(body)
        with mask_values_of_secret_fields_in_context(*(part.args for part in parts if isinstance(part, CallPart))):
            visible_text = "\n".join(text for part in parts for text in iterate_masked_texts_of_part(part)).casefold()
        if all(word.casefold() in visible_text for word in query.words):
            yield position


def iterate_masked_texts_of_part(part: Part) -> Iterator[str]:
    """Yield the texts of a part as the current reader sees them."""
    match part:
        case TextPart(text=text) | ReasoningPart(text=text):
            yield mask_text(text)
        case ImagePart(url=url, alt=description) | AudioPart(url=url, transcript=description):
            yield mask_text(description) if description else get_masked_text_beginning(url, _ADDRESS)
        case CallPart(name=name, args=args):
            yield mask_text(name)
            yield mask_and_dump_json(args)
        case ResultPart(parts=inner):
            for inner_part in inner:
                yield from _iterate_masked_result_texts(inner_part)
        case OtherPart(value=value):
            yield mask_and_dump_json(value)


def _iterate_masked_result_texts(part: Part) -> Iterator[str]:
    """Yield the texts of a result.

    A JSON result is masked by its field names, as it is when displayed.
    """
    value = parse_json_container(part.text) if isinstance(part, TextPart) else None
    if value is None:
        yield from iterate_masked_texts_of_part(part)
    else:
        yield mask_and_dump_json(value)
