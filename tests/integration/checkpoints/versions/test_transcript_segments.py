"""What a transcript costs and what its versions keep: each message once, every version exact."""

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.models import Segment
from tests.conftest import Open
from tests.integration.checkpoints.situations import Messages, lose_run, said, started, stored_messages, talk


def save_all(cp: SyncCheckpointer, histories: list[Messages]) -> None:
    for transcript in histories:
        cp.save_checkpoint("s", transcript, None, 0)


def versions(cp: SyncCheckpointer) -> list[Messages]:
    return [cp.load("s", found["version"])["transcript"] for found in reversed(cp.list_checkpoints("s"))]


#: A history of transcripts, how many messages it has to store, and in how many segments.
HISTORIES = {
    "grown turn by turn": ([talk("abcdef"[:n]) for n in range(7)], 6, 1),
    "the same again": ([talk("abc")] * 4, 3, 1),
    "compacted to a summary": ([talk("abcd"), [said("summary")], [said("summary"), said("e")]], 6, 2),
    "compacted behind the first message": ([talk("abcd"), [*talk("a"), said("summary"), said("d")]], 6, 2),
    "edited in the middle": ([talk("abcd"), [*talk("ab"), said("C"), talk("abcd")[3]]], 6, 2),
    "edited at the start": ([talk("abc"), [said("A"), *talk("abc")[1:]]], 6, 2),
    "edited at the end": ([talk("abc"), [*talk("ab"), said("C")]], 4, 2),
    "truncated": ([talk("abcd"), talk("ab"), talk("a")], 4, 3),
    "truncated and grown otherwise": ([talk("abcd"), talk("ab"), [*talk("ab"), said("x"), said("y")]], 6, 2),
    "emptied": ([talk("abc"), [], talk("x")], 4, 2),
    "emptied twice": ([talk("a"), [], [], talk("b"), []], 2, 3),
    "one message repeated": ([[said("a")] * n for n in range(5)], 4, 1),
    "repetition shortened": ([[said("a")] * 4, [said("a")] * 2, [said("a")] * 3], 5, 2),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_every_version_of_a_history_is_exact(cp: SyncCheckpointer, name: str) -> None:
    transcripts, messages, segments = HISTORIES[name]
    save_all(started(cp), transcripts)

    assert versions(cp) == transcripts
    assert (stored_messages(), Segment.objects.count()) == (messages, segments)


@pytest.mark.parametrize("name", HISTORIES)
def test_every_version_of_a_history_is_exact_when_each_run_is_another(open_checkpointer: Open, name: str) -> None:
    transcripts, messages, segments = HISTORIES[name]
    cp = started(open_checkpointer())
    for transcript in transcripts:
        cp = lose_run(open_checkpointer)
        cp.save_checkpoint("s", transcript, None, 0)

    assert versions(cp) == transcripts
    assert (stored_messages(), Segment.objects.count()) == (messages, segments)


def test_message_changed_in_place_is_a_new_message(cp: SyncCheckpointer) -> None:
    transcript = talk("abc")
    started(cp).save_checkpoint("s", transcript, None, 0)
    transcript[1]["blocks"][0]["text"] = "changed"
    cp.save_checkpoint("s", transcript, None, 0)

    assert versions(cp) == [talk("abc"), transcript]
    assert stored_messages() == 5


def test_order_of_keys_is_no_change(cp: SyncCheckpointer) -> None:
    started(cp).save_checkpoint("s", [{"a": 1, "b": 2}], None, 0)
    cp.save_checkpoint("s", [{"b": 2, "a": 1}], None, 0)

    assert stored_messages() == 1


@pytest.mark.parametrize(("first", "second"), [(1, 1.0), (1, True), (0, False), ("1", 1), (None, "")], ids=repr)
def test_value_of_another_type_is_a_change(cp: SyncCheckpointer, first: object, second: object) -> None:
    started(cp).save_checkpoint("s", [{"value": first}], None, 0)
    cp.save_checkpoint("s", [{"value": second}], None, 0)

    assert [repr(transcript[0]["value"]) for transcript in versions(cp)] == [repr(first), repr(second)]
    assert stored_messages() == 2


def test_deep_tree_of_segments_reads_back(cp: SyncCheckpointer) -> None:
    histories = [[*talk("abcdefgh"[:n]), said(f"branch {n}")] for n in range(8)]
    save_all(started(cp), histories)

    assert versions(cp) == histories


def test_sessions_share_no_messages(cp: SyncCheckpointer) -> None:
    started(cp, "s").save_checkpoint("s", talk("abc"), None, 0)
    started(cp, "other").save_checkpoint("other", talk("abc"), None, 0)

    assert (stored_messages("s"), stored_messages("other")) == (3, 3)


def test_bytes_grow_with_what_was_said_and_not_with_its_square(cp: SyncCheckpointer) -> None:
    started(cp)
    transcript: Messages = []
    for turn in range(60):
        transcript.append(said(f"turn {turn}"))
        cp.save_checkpoint("s", transcript, None, 0)

    assert stored_messages() == 60
    assert cp.load("s", 31)["transcript"] == transcript[:31]
