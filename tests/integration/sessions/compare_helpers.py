"""Helpers that create and compare versions of a session."""

from typing import Any

from checkpoints.models import Segment, Session
from harness_site.sessions.compare import compare_versions
from harness_site.sessions.compare.compare_versions import Comparison
from harness_site.sessions.compare.message_alignment import Added, Edited, Fold, Removed
from tests.support.factories import make_message


def say(session: Session, *texts: str, **fields: Any) -> None:
    for text in texts:
        make_message(session=session, body={"role": "assistant", "content": text, **fields})


def rewrite(session: Session, keep: int) -> None:
    session.head_segment = Segment.objects.create(session=session, parent=session.head_segment, parent_length=keep)
    session.message_count = keep
    session.save()


def compared(session: Session, a: int, b: int) -> Comparison:
    found = compare_versions.compare_two_versions(session.pk, a, b)
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
