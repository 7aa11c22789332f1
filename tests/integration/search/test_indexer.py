"""The indexer follows inserts and deletes of the store in any order."""

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.models import Message, Session, ToolCall
from harness_site.search import hourly_call_and_decision_sums, indexer, text_extraction
from harness_site.search import texts_to_index as reading
from harness_site.search.index_status import load_index_status
from harness_site.search.management.commands import index_search
from harness_site.search.models import Kind, Passage, Progress, ToolSums
from harness_site.search.text_extraction import ExtractedText
from tests.integration.search.conftest import complete
from tests.support.factories import make_call, make_decision, make_message, make_session
from tests.support.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def texts(kind: Kind = Kind.MESSAGE) -> list[str]:
    return list(Passage.objects.filter(kind=kind).order_by("source", "part").values_list("text", flat=True))


def test_each_text_is_indexed_once() -> None:
    session = make_session()
    make_message(session=session, text="one")
    complete()
    make_message(session=session, text="two")
    complete()
    complete()
    assert texts() == ["m0\none", "m1\ntwo"]


def test_json_result_is_indexed_without_escapes() -> None:
    output = json.dumps({"output": "first line\nimport lamps", "exit_code": 0})
    make_call(session=make_session(), call_id="c1", tool="shell", status=CallStatus.COMPLETED, result=output)
    complete()
    (text,) = texts(Kind.CALL)
    assert "output: first line\nimport lamps\nexit_code: 0" in text


def test_late_committed_message_is_indexed() -> None:
    """Its key is smaller than one that is already indexed."""
    session = make_session()
    late = make_message(session=session, text="late")
    Message.objects.filter(pk=late.pk).delete()
    make_message(session=session, text="early")
    complete()
    assert texts() == ["m0\nearly"]
    late.position, late.segment_id = 1, late.segment_id
    late.save(force_insert=True)
    complete()
    assert sorted(texts()) == ["m0\nearly", "m0\nlate"]


def test_keys_are_settled_only_when_older_transactions_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        assert (
            indexer._fetch_oldest_open_transaction_id() == indexer._fetch_next_database_transaction_id() == 0
        )  # one writer: nothing is older
        return
    monkeypatch.setattr(indexer, "_REREAD_KEYS", 0)
    session = make_session()
    written, end = threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            make_call(session=session, call_id="slow")
            written.set()
            end.wait(30)
        connection.close()

    thread = threading.Thread(target=slow)
    thread.start()
    assert written.wait(30)
    make_call(session=make_session(), call_id="quick")
    complete()
    complete()
    before = Progress.objects.get(kind=Kind.SESSION)
    assert before.settled < before.reached
    end.set()
    thread.join()

    def settled() -> bool:
        """Wait until keys are settled; transactions in other databases of the server delay it."""
        make_session()
        complete()
        return Progress.objects.get(kind=Kind.SESSION).settled >= before.reached

    wait_until(settled)
    assert [text.split("\n")[0] for text in texts(Kind.CALL)] == ["slow", "quick"]


def test_deleted_text_is_removed_in_the_same_transaction() -> None:
    cp = SyncCheckpointer()
    cp.start_session("s", "Hello", agent="desk")
    cp.save_checkpoint("s", [{"id": "m1", "role": "user", "content": "needle"}], {}, 0)
    make_call(session=Session.objects.get(session_id="s"), args={"at": "needle"})
    cp.close()
    complete()
    assert Passage.objects.count() == 3
    ToolCall.objects.update(status="failed")
    cp = SyncCheckpointer()
    cp.delete_session("s")
    assert Passage.objects.count() == 0
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM harness_search_words WHERE harness_search_words MATCH 'needle'")
            assert cursor.fetchone() == (0,)


def test_long_texts_are_indexed_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session()
    for number in range(7):
        make_message(session=session, text=f"This is long text {number}")
    size = max(len(body) for body in Message.objects.values_list("body", flat=True))
    monkeypatch.setattr(reading, "_CHARACTERS", 2 * size)
    assert [indexer._index_batch_of_kind(Kind.MESSAGE) for _ in range(5)] == [2, 2, 2, 1, 0]
    for number in range(7, 10):
        make_message(session=session, text=f"This is long text {number} " + "x" * number * size)
    assert [indexer._index_batch_of_kind(Kind.MESSAGE) for _ in range(4)] == [1, 1, 1, 0]
    assert [text.rstrip(" x")[-1] for text in texts()] == list("0123456789")


def test_message_deleted_during_indexing_is_not_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    message = make_message(session=make_session())
    original = text_extraction.extract_masked_message_text

    def read(body: str, message_id: str) -> ExtractedText:
        Message.objects.filter(pk=message.pk).delete()
        return original(body, message_id)

    monkeypatch.setattr(text_extraction, "extract_masked_message_text", read)
    complete()
    assert texts() == []


def test_existing_texts_are_indexed_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "STEP", 2)
    session, moment = make_session(), datetime(2026, 5, 4, tzinfo=UTC)
    for number in range(5):
        make_message(session=session, text=f"old {number}", created_at=moment + timedelta(days=number))
    indexer._get_or_create_progress(Kind.SESSION)
    assert indexer._index_batch_of_kind(Kind.MESSAGE) == 2
    assert texts() == ["m3\nold 3", "m4\nold 4"]
    assert not load_index_status().was_ever_complete
    assert load_index_status().older == session.pk + Message.objects.order_by("pk")[2].pk
    make_message(session=session, text="x" * 3 * text_extraction.PIECE, created_at=moment + timedelta(days=5))
    assert indexer._index_batch_of_kind(Kind.MESSAGE) == 2
    assert [text[:4] for text in texts()] == ["m2\no", "m3\no", "m4\no", "m5\nx", "xxxx", "xxxx", "xxxx"]
    complete()
    assert (load_index_status().was_ever_complete, load_index_status().older) == (True, 0)
    by_age = Passage.objects.filter(kind=Kind.MESSAGE).order_by("pk")
    assert list(by_age.values_list("position", "part")) == [(n, 0) for n in range(5)] + [(5, n) for n in range(4)]
    eras = list(Passage.objects.order_by("pk").values_list("era", flat=True))
    assert eras == sorted(eras)


def test_failed_step_is_rolled_back_and_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    make_message(session=make_session())
    with monkeypatch.context() as patch:
        patch.setattr(hourly_call_and_decision_sums, "add_tallies_to_hour_and_day_sums", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            indexer._index_batch_of_kind(Kind.MESSAGE)
    assert texts() == []
    Progress.objects.update(leased_until=None)
    complete()
    assert len(texts()) == 1


def test_slow_process_is_replaced_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    make_message(session=make_session())
    original = reading.load_texts_to_index

    def read(kind: Kind, keys: list[int]) -> list[reading.IndexedText]:
        found = original(kind, keys)
        with monkeypatch.context() as patch:
            patch.setattr(reading, "load_texts_to_index", original)
            Progress.objects.update(leased_until=None)
            assert indexer._index_batch_of_kind(kind) == 1
        return found

    with monkeypatch.context() as patch:
        patch.setattr(reading, "load_texts_to_index", read)
        assert indexer._index_batch_of_kind(Kind.MESSAGE) == 0
    complete()
    assert len(texts()) == 1


def test_concurrent_indexers_index_each_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        assert connection.features.supports_transactions  # one writer: they take turns
        return
    monkeypatch.setattr(indexer, "STEP", 3)
    session, moment = make_session(), datetime(2026, 5, 4, tzinfo=UTC)
    for number in range(30):
        at = moment + timedelta(minutes=number)
        make_message(session=session, text=f"{number}", created_at=at)
        make_call(session=session, call_id=f"c{number}", status=CallStatus.COMPLETED, issued_at=at)

    def work() -> None:
        while not load_index_status().was_ever_complete:
            indexer.index_next_batch_of_each_kind()
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert (len(texts()), len(texts(Kind.CALL)), len(texts(Kind.SESSION))) == (30, 30, 1)
    assert ToolSums.objects.get(hourly=False).calls == 30
    for kind in (Kind.MESSAGE, Kind.CALL):
        sources = list(Passage.objects.filter(kind=kind).order_by("pk").values_list("source", flat=True))
        assert sources == sorted(sources)


@pytest.mark.parametrize(
    ("withdrawn", "before", "calls"),
    [
        (DecisionKind.REJECT, CallStatus.REJECTED, 0),
        (DecisionKind.RESPOND, CallStatus.COMPLETED, 0),
        (DecisionKind.MARK_FAILED, CallStatus.FAILED, 1),
    ],
)
def test_call_is_indexed_and_counted_again_after_a_withdrawal(
    withdrawn: DecisionKind, before: CallStatus, calls: int
) -> None:
    """Nothing else looks at a settled call again."""
    session = make_session()
    lost: dict[str, Any] = {"interrupted_at": clock.now()} if withdrawn == DecisionKind.MARK_FAILED else {}
    call = make_call(session=session, status=before, result="The old answer", revision=2, **lost)
    make_decision(call=call, kind=withdrawn, revision=1)
    complete()
    assert sum(ToolSums.objects.filter(hourly=False).values_list("calls", flat=True)) == calls
    make_decision(call=call, kind=DecisionKind.WITHDRAW, revision=2)
    if lost:
        make_decision(call=call, kind=DecisionKind.CONFIRM_LANDED, revision=3)
    ToolCall.objects.update(status=CallStatus.COMPLETED, result='"The new result"', revision=4)
    complete()
    assert "The new result" in texts(Kind.CALL)[0]
    assert "The old answer" not in texts(Kind.CALL)[0]
    sums = ToolSums.objects.get(hourly=False)
    assert (sums.calls, sums.failed, sums.interrupted) == (1, 0, len(lost))
    complete()
    assert sums.calls == ToolSums.objects.get(hourly=False).calls


def test_shell_command_that_failed_counts_as_failed_until_its_decision_is_withdrawn() -> None:
    session = make_session()
    make_call(session=session, call_id="c1", tool="shell", status=CallStatus.COMPLETED, result="Exit code 1")
    make_call(session=session, call_id="c2", tool="shell", status=CallStatus.COMPLETED, result="Exit code 0")
    lost: dict[str, Any] = {"interrupted_at": clock.now(), "revision": 2}
    call = make_call(session=session, tool="Bash", status=CallStatus.COMPLETED, result="Exit code 2", **lost)
    make_decision(call=call, kind=DecisionKind.CONFIRM_LANDED, revision=1)
    complete()
    sums = ToolSums.objects.filter(hourly=False).order_by("tool")
    assert list(sums.values_list("tool", "calls", "failed")) == [("Bash", 1, 1), ("shell", 2, 1)]
    make_decision(call=call, kind=DecisionKind.WITHDRAW, revision=2)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.INTERRUPTED, result=None, exit_code=None, revision=3)
    complete()
    assert list(sums.values_list("tool", "calls", "failed")) == [("Bash", 0, 0), ("shell", 2, 1)]


def test_call_that_changes_while_it_is_indexed_is_indexed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    make_call(session=make_session(), status=CallStatus.REJECTED)
    original = reading.load_texts_to_index

    def read(kind: Kind, keys: list[int]) -> list[reading.IndexedText]:
        found = original(kind, keys)
        ToolCall.objects.filter(pk__in=keys).update(status=CallStatus.COMPLETED, result='"new"', revision=7)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(reading, "load_texts_to_index", read)
        indexer._index_batch_of_kind(Kind.CALL)
    complete()
    assert "new" in texts(Kind.CALL)[0]
    assert ToolSums.objects.get(hourly=False).calls == 1


def test_one_process_indexes_at_a_time() -> None:
    make_message(session=make_session())
    indexer.index_next_batch_of_each_kind()
    make_message(session=make_session())
    assert indexer._acquire_index_lease(Kind.MESSAGE)
    assert not indexer._acquire_index_lease(Kind.MESSAGE)
    assert indexer._index_batch_of_kind(Kind.MESSAGE) == 0
    Progress.objects.update(leased_until=None)
    assert indexer._index_batch_of_kind(Kind.MESSAGE) == 1


def test_index_status_reports_its_lag() -> None:
    assert not load_index_status().was_ever_complete
    session = make_session()
    complete()
    assert (load_index_status().was_ever_complete, load_index_status().behind) == (True, 0)
    make_message(session=session)
    assert load_index_status().behind >= 1


def test_images_and_unstorable_texts_are_not_indexed() -> None:
    session = make_session()
    blocks = [
        {"kind": "image", "url": "data:image/png;base64," + "A" * 9000, "alt": "a cat"},
        {"kind": "text", "text": "x\ud800y"},
    ]
    make_message(session=session, blocks=blocks)
    complete()
    assert texts() == ["m0\na cat\nx\ufffdy"]


def test_command_completes_and_rebuilds_the_index(capsys: pytest.CaptureFixture[str]) -> None:
    make_message(session=make_session())
    call_command("index_search")
    assert capsys.readouterr().out == "2 texts went into the index; it is complete.\n"
    Passage.objects.update(text="damaged")
    call_command("index_search")
    assert capsys.readouterr().out == "0 texts went into the index; it is complete.\n"
    call_command("index_search", "--rebuild")
    assert texts() == ["m0\nThe lamp arrived broken."]


def test_command_waits_for_the_lock_of_a_killed_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_message(session=make_session())
    indexer._get_or_create_progress(Kind.MESSAGE)
    assert indexer._acquire_index_lease(Kind.MESSAGE)
    monkeypatch.setattr(index_search, "sleep", lambda _: Progress.objects.update(leased_until=None))
    call_command("index_search")
    assert capsys.readouterr().out == "2 texts went into the index; it is complete.\n"
    assert (load_index_status().was_ever_complete, len(texts())) == (True, 1)
