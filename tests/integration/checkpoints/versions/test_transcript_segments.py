"""Transcript segments: each message is stored once, and every version is loaded exactly."""

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.models import Segment
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import (
    Messages,
    conversation,
    count_messages,
    lose_run,
    start_session,
    text_message,
)


def save_all(cp: SyncCheckpointer, histories: list[Messages]) -> None:
    for transcript in histories:
        cp.save_checkpoint("s", transcript, None, 0)


def versions(cp: SyncCheckpointer) -> list[Messages]:
    return [cp.load("s", found["version"])["transcript"] for found in reversed(cp.list_checkpoints("s"))]


#: A history of transcripts, how many messages it has to store, and in how many segments.
HISTORIES = {
    "grown turn by turn": ([conversation("abcdef"[:n]) for n in range(7)], 6, 1),
    "the same again": ([conversation("abc")] * 4, 3, 1),
    "compacted to a summary": (
        [conversation("abcd"), [text_message("summary")], [text_message("summary"), text_message("e")]],
        6,
        2,
    ),
    "compacted behind the first message": (
        [conversation("abcd"), [*conversation("a"), text_message("summary"), text_message("d")]],
        6,
        2,
    ),
    "edited in the middle": (
        [conversation("abcd"), [*conversation("ab"), text_message("C"), conversation("abcd")[3]]],
        6,
        2,
    ),
    "edited at the start": ([conversation("abc"), [text_message("A"), *conversation("abc")[1:]]], 6, 2),
    "edited at the end": ([conversation("abc"), [*conversation("ab"), text_message("C")]], 4, 2),
    "truncated": ([conversation("abcd"), conversation("ab"), conversation("a")], 4, 3),
    "truncated and grown otherwise": (
        [conversation("abcd"), conversation("ab"), [*conversation("ab"), text_message("x"), text_message("y")]],
        6,
        2,
    ),
    "emptied": ([conversation("abc"), [], conversation("x")], 4, 2),
    "emptied twice": ([conversation("a"), [], [], conversation("b"), []], 2, 3),
    "one message repeated": ([[text_message("a")] * n for n in range(5)], 4, 1),
    "repetition shortened": ([[text_message("a")] * 4, [text_message("a")] * 2, [text_message("a")] * 3], 5, 2),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_every_version_of_a_history_is_loaded_exactly(cp: SyncCheckpointer, name: str) -> None:
    transcripts, messages, segments = HISTORIES[name]
    save_all(start_session(cp), transcripts)

    assert versions(cp) == transcripts
    assert (count_messages(), Segment.objects.count()) == (messages, segments)


@pytest.mark.parametrize("name", HISTORIES)
def test_every_version_of_a_history_is_exact_across_runs(open_checkpointer: Open, name: str) -> None:
    transcripts, messages, segments = HISTORIES[name]
    cp = start_session(open_checkpointer())
    for transcript in transcripts:
        cp = lose_run(open_checkpointer)
        cp.save_checkpoint("s", transcript, None, 0)

    assert versions(cp) == transcripts
    assert (count_messages(), Segment.objects.count()) == (messages, segments)


def test_message_changed_in_place_is_a_new_message(cp: SyncCheckpointer) -> None:
    transcript = conversation("abc")
    start_session(cp).save_checkpoint("s", transcript, None, 0)
    transcript[1]["blocks"][0]["text"] = "changed"
    cp.save_checkpoint("s", transcript, None, 0)

    assert versions(cp) == [conversation("abc"), transcript]
    assert count_messages() == 5


def test_key_order_is_not_a_change(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", [{"a": 1, "b": 2}], None, 0)
    cp.save_checkpoint("s", [{"b": 2, "a": 1}], None, 0)

    assert count_messages() == 1


@pytest.mark.parametrize(("first", "second"), [(1, 1.0), (1, True), (0, False), ("1", 1), (None, "")], ids=repr)
def test_value_of_another_type_is_a_change(cp: SyncCheckpointer, first: object, second: object) -> None:
    start_session(cp).save_checkpoint("s", [{"value": first}], None, 0)
    cp.save_checkpoint("s", [{"value": second}], None, 0)

    assert [repr(transcript[0]["value"]) for transcript in versions(cp)] == [repr(first), repr(second)]
    assert count_messages() == 2


def test_deep_segment_tree_is_loaded(cp: SyncCheckpointer) -> None:
    histories = [[*conversation("abcdefgh"[:n]), text_message(f"branch {n}")] for n in range(8)]
    save_all(start_session(cp), histories)

    assert versions(cp) == histories


def test_sessions_share_no_messages(cp: SyncCheckpointer) -> None:
    start_session(cp, "s").save_checkpoint("s", conversation("abc"), None, 0)
    start_session(cp, "other").save_checkpoint("other", conversation("abc"), None, 0)

    assert (count_messages("s"), count_messages("other")) == (3, 3)


def test_storage_grows_linearly_with_the_transcript(cp: SyncCheckpointer) -> None:
    start_session(cp)
    transcript: Messages = []
    for turn in range(60):
        transcript.append(text_message(f"turn {turn}"))
        cp.save_checkpoint("s", transcript, None, 0)

    assert count_messages() == 60
    assert cp.load("s", 31)["transcript"] == transcript[:31]
