"""Queries of the messages of stored transcripts."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from checkpoints.formats import parse_json, to_canonical_json
from checkpoints.models import Message, Segment, Session
from harness_site.sessions.selectors import transcript_message_queries
from harness_site.sessions.selectors.transcript_message_queries import SegmentRange
from tests.support.factories import make_message, make_session

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


def say(session: Session, segment: Segment, *texts: str) -> None:
    for text in texts:
        make_message(session=session, segment=segment, body={"role": "user", "content": text})


def branch(session: Session, parent: Segment, at: int) -> Segment:
    return Segment.objects.create(session=session, parent=parent, parent_length=at)


def texts(
    segment: Segment, first: int, upto: int, size: int = transcript_message_queries.WINDOW_SIZE
) -> list[tuple[int, str]]:
    found = transcript_message_queries.load_and_verify_newest_messages_within_size(segment.pk, first, upto, size=size)
    return [(message.position, parse_json(message.body)["content"]) for message in found]


@pytest.fixture
def session() -> Session:
    return make_session()


@pytest.fixture
def root(session: Session) -> Segment:
    assert session.head_segment is not None
    say(session, session.head_segment, "a", "b", "c", "d")
    return session.head_segment


def test_window_contains_the_requested_range(root: Segment) -> None:
    assert texts(root, 1, 3) == [(1, "b"), (2, "c")]


def test_window_ends_at_the_end_of_the_version(root: Segment) -> None:
    assert texts(root, 0, 2) == [(0, "a"), (1, "b")]


def test_window_beyond_the_end_is_empty(root: Segment) -> None:
    assert texts(root, 4, 10) == []


def test_edit_replaces_following_messages(session: Session, root: Segment) -> None:
    edited = branch(session, root, 2)
    say(session, edited, "C", "D", "E")
    assert texts(edited, 0, 5) == [(0, "a"), (1, "b"), (2, "C"), (3, "D"), (4, "E")]
    assert texts(root, 0, 4) == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]


def test_compaction_starts_a_new_transcript(session: Session, root: Segment) -> None:
    compacted = branch(session, root, 0)
    say(session, compacted, "summary")
    assert texts(compacted, 0, 1) == [(0, "summary")]
    assert transcript_message_queries.load_segment_ranges(compacted.pk, 1) == [SegmentRange(compacted.pk, 0, 1)]


def test_fork_reads_messages_of_its_origin(session: Session, root: Segment) -> None:
    other = make_session()
    forked = branch(other, root, 3)
    say(other, forked, "x")
    assert texts(forked, 0, 4) == [(0, "a"), (1, "b"), (2, "c"), (3, "x")]
    assert transcript_message_queries.load_segment_ranges(forked.pk, 4) == [
        SegmentRange(root.pk, 0, 3),
        SegmentRange(forked.pk, 3, 4),
    ]


def test_branch_before_the_parents_messages_skips_the_parent(session: Session, root: Segment) -> None:
    second = branch(session, root, 3)
    say(session, second, "D")
    third = branch(session, second, 1)
    say(session, third, "B", "C")
    assert texts(third, 0, 3) == [(0, "a"), (1, "B"), (2, "C")]
    assert transcript_message_queries.load_segment_ranges(third.pk, 3) == [
        SegmentRange(root.pk, 0, 1),
        SegmentRange(third.pk, 1, 3),
    ]


def test_window_before_the_branch_reads_the_parent(session: Session, root: Segment) -> None:
    edited = branch(session, root, 3)
    say(session, edited, "D")
    assert texts(edited, 1, 2) == [(1, "b")]


def test_window_across_many_segments(session: Session, root: Segment) -> None:
    segment = root
    for position in range(4, 20):
        segment = branch(session, segment, position)
        say(session, segment, str(position))
    assert texts(segment, 2, 7) == [(2, "c"), (3, "d"), (4, "4"), (5, "5"), (6, "6")]
    assert len(transcript_message_queries.load_segment_ranges(segment.pk, 20)) == 17


def test_window_of_huge_messages_contains_at_least_one(session: Session, root: Segment) -> None:
    assert [position for position, _ in texts(root, 0, 4, size=1)] == [3]
    one = len(Message.objects.get(segment=root, position=0).body)
    assert [position for position, _ in texts(root, 0, 4, size=2 * one)] == [2, 3]
    assert [position for position, _ in texts(root, 0, 4, size=2 * one + 1)] == [1, 2, 3]


@pytest.mark.unsealed("its messages have no chain of the library")
def test_texts_are_read_exactly(session: Session) -> None:
    text = "NUL \x00, half \ud83d, RTL \u202e, ünï, 漢字, \U0001f469\u200d\U0001f52c, ' \" \\ %s {}"
    segment = Segment.objects.create(session=session)
    make_message(session=session, segment=segment)
    Message.objects.filter(segment=segment).update(body=to_canonical_json({"content": text}))
    assert texts(segment, 0, 1) == [(0, text)]


def test_window_takes_one_statement(session: Session, root: Segment, django_assert_num_queries: Queries) -> None:
    edited = branch(session, branch(session, root, 3), 3)
    with django_assert_num_queries(1):
        transcript_message_queries.load_and_verify_newest_messages_within_size(edited.pk, 0, 3)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ([], [], 0),
        ([SegmentRange(1, 0, 5)], [SegmentRange(1, 0, 8)], 5),
        ([SegmentRange(1, 0, 5), SegmentRange(2, 5, 7)], [SegmentRange(1, 0, 5), SegmentRange(2, 5, 6)], 6),
        ([SegmentRange(1, 0, 5), SegmentRange(2, 5, 7)], [SegmentRange(1, 0, 3), SegmentRange(3, 3, 9)], 3),
        ([SegmentRange(1, 0, 5), SegmentRange(2, 5, 7)], [SegmentRange(1, 0, 5), SegmentRange(3, 5, 9)], 5),
        ([SegmentRange(1, 0, 5)], [SegmentRange(2, 0, 5)], 0),
    ],
)
def test_shared_messages_are_the_same_rows(one: list[SegmentRange], other: list[SegmentRange], common: int) -> None:
    assert transcript_message_queries.count_shared_messages(one, other) == common
    assert transcript_message_queries.count_shared_messages(other, one) == common
