"""Finding words in a whole transcript, as its reader sees it: what is masked for them is not found by them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from checkpoints.queries import blocks, passages
from checkpoints.queries.blocks import Call, Image, Other, Part, Reasoning, Result, Text
from checkpoints.queries.conversation import Place
from harness_site.rendering.jsontree import dumped
from harness_site.rendering.masking import masked

#: Messages that are counted on each side.
LIMIT: Final = 100
#: Nobody looks for more.
LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found around `here`: the nearest hits on both sides, and how many there are up to `LIMIT`."""

    words: str
    here: int
    is_hit: bool
    previous: int | None
    following: int | None
    before: int
    after: int

    @property
    def anything(self) -> bool:
        return self.is_hit or bool(self.before or self.after)


def find(at: Place, words: str, here: int) -> Found:
    """The hits around position `here`."""
    before = list(islice(_hits(at, words, beyond=here, back=True), LIMIT + 1))
    after = list(islice(_hits(at, words, beyond=here - 1), LIMIT + 2))
    is_hit = bool(after) and after[0] == here
    after = after[1:] if is_hit else after
    return Found(
        words=words,
        here=here,
        is_hit=is_hit,
        previous=before[0] if before else None,
        following=after[0] if after else None,
        before=len(before),
        after=len(after),
    )


def first(at: Place, words: str) -> int | None:
    return next(_hits(at, words, beyond=-1), None)


def _hits(at: Place, words: str, *, beyond: int, back: bool = False) -> Iterator[int]:
    wanted = words.casefold()
    for position, body in passages.containing(at, words, beyond=beyond, back=back):
        if any(wanted in text.casefold() for part in blocks.read(body) for text in _texts(part)):
            yield position


def _texts(part: Part) -> Iterator[str]:
    """What a part says to who reads now."""
    match part:
        case Text(text=text) | Reasoning(text=text):
            yield masked(text)
        case Image(url=url, alt=alt):
            yield masked(alt or url[:LONGEST])
        case Call(name=name, args=args):
            yield masked(name)
            yield dumped(args)
        case Result(parts=inner):
            for each in inner:
                yield from _texts(each)
        case Other(value=value):
            yield dumped(value)
