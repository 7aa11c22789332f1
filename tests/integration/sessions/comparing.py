"""Two versions of a session, and what comparing them says."""

from typing import Any

from checkpoints.models import Segment, Session
from checkpoints.queries import compare
from checkpoints.queries.alignment import Added, Edited, Fold, Removed
from checkpoints.queries.compare import Comparison
from tests.support.factories import make_message


def say(session: Session, *texts: str, **fields: Any) -> None:
    for text in texts:
        make_message(session=session, body={"role": "assistant", "content": text, **fields})


def rewrite(session: Session, keep: int) -> None:
    session.head_segment = Segment.objects.create(session=session, parent=session.head_segment, parent_length=keep)
    session.message_count = keep
    session.save()


def compared(session: Session, a: int, b: int) -> Comparison:
    found = compare.compare(session.pk, a, b)
    assert found is not None
    return found


def lines(found: Comparison) -> list[Any]:
    said: list[Any] = []
    for line in found.lines:
        match line:
            case Fold(count=count, position=position):
                said.append((count, position))
            case Edited(old=old, new=new):
                said.append(("~", old.text, new.text))
            case Added(message=message):
                said.append(("+", message.text))
            case Removed(message=message):
                said.append(("-", message.text))
    return said
