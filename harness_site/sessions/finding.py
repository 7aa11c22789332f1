"""Finding words in a whole transcript, as its reader sees it: what is masked for them is not found by them.

They are read as the search of all sessions reads them: every word has to stand in the message, “quoted words” together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from checkpoints.queries import blocks, passages
from checkpoints.queries.blocks import Call, Image, Other, Part, Reasoning, Result, Text
from checkpoints.queries.conversation import Place
from harness_site.rendering.jsontree import dumped
from harness_site.rendering.masking import hiding_values_of, masked, masked_beginning
from harness_site.rendering.saying import structured
from harness_site.search.words import Query

#: Messages that are counted on each side.
LIMIT: Final = 100
#: So much of an image's address can be found.
_ADDRESS: Final = 200


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found around `here`: the nearest hits on both sides, and how many there are up to `LIMIT`."""

    query: Query
    here: int
    is_hit: bool
    previous: int | None
    following: int | None
    before: int
    after: int

    @property
    def anything(self) -> bool:
        return self.is_hit or bool(self.before or self.after)


def find(at: Place, query: Query, here: int) -> Found:
    """The hits around position `here`."""
    before = list(islice(_hits(at, query, beyond=here, back=True), LIMIT + 1))
    after = list(islice(_hits(at, query, beyond=here - 1), LIMIT + 2))
    is_hit = bool(after) and after[0] == here
    after = after[1:] if is_hit else after
    return Found(
        query=query,
        here=here,
        is_hit=is_hit,
        previous=before[0] if before else None,
        following=after[0] if after else None,
        before=len(before),
        after=len(after),
    )


def first(at: Place, query: Query) -> int | None:
    return next(_hits(at, query, beyond=-1), None)


def _hits(at: Place, query: Query, *, beyond: int, back: bool = False) -> Iterator[int]:
    for position, body in passages.containing(at, query.words, beyond=beyond, back=back):
        parts = blocks.read(body)
        with hiding_values_of(*(part.args for part in parts if isinstance(part, Call))):
            told = "\n".join(text for part in parts for text in texts(part)).casefold()
        if all(word.casefold() in told for word in query.words):
            yield position


def texts(part: Part) -> Iterator[str]:
    """What a part says to who reads now."""
    match part:
        case Text(text=text) | Reasoning(text=text):
            yield masked(text)
        case Image(url=url, alt=alt):
            yield masked(alt) if alt else masked_beginning(url, _ADDRESS)
        case Call(name=name, args=args):
            yield masked(name)
            yield dumped(args)
        case Result(parts=inner):
            for each in inner:
                yield from _returned(each)
        case Other(value=value):
            yield dumped(value)


def _returned(part: Part) -> Iterator[str]:
    """A result that is JSON is masked by the names in it, as it is shown."""
    value = structured(part.text) if isinstance(part, Text) else None
    if value is None:
        yield from texts(part)
    else:
        yield dumped(value)
