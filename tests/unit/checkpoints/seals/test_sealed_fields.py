"""Every column of a sealed table is sealed or excluded for a stated reason."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from django.apps import apps

from checkpoints.db.hot_statements import NewMessage
from checkpoints.enums import CallStatus
from checkpoints.models import Message, Session, ToolCall
from checkpoints.seals import row_encoding, row_seals
from checkpoints.seals.row_seals import RowSealer
from checkpoints.seals.seal_keys import SealKey
from checkpoints.seals.sealed_model import SealedModel
from checkpoints.seals.session_heads import CHANGING_COLUMNS
from checkpoints.store.checkpointer_state import ChangingCallColumns

SEALED_MODELS = [model for model in apps.get_app_config("checkpoints").get_models() if issubclass(model, SealedModel)]
#: Tables without seals: what they hold decides nothing that an agent does, or is in sealed rows too.
UNSEALED_MODELS = {
    "Blob",  # sealed rows name its content by its digest
    "ImportedFile",  # what an import need not read again
    "Run",  # ownership, which is no record
    "Workspace",
}


def test_every_table_is_sealed_or_exempt() -> None:
    names = {model.__name__ for model in apps.get_app_config("checkpoints").get_models()}
    assert names == UNSEALED_MODELS | {model.__name__ for model in SEALED_MODELS}


@pytest.mark.parametrize("model", SEALED_MODELS, ids=lambda model: model.__name__)
def test_every_column_is_sealed_or_excluded_for_a_reason(model: type[SealedModel]) -> None:
    columns = [field.name for field in model._meta.concrete_fields]
    assert sorted([*model.sealed_fields, *model.unsealed_fields]) == sorted(columns)
    assert all(model.unsealed_fields.values())


def _seal(**changes: object) -> bytes:
    key = SealKey(bytes(32))
    values = dict.fromkeys(ToolCall.sealed_fields) | changes
    return RowSealer(key, ToolCall).compute_seal_of_named_values(values)


def test_equal_values_of_different_types_have_one_seal() -> None:
    moment = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
    assert _seal(status=CallStatus.ISSUED) == _seal(status="issued")
    assert _seal(issued_at=moment) == _seal(issued_at=moment.astimezone(timezone(timedelta(hours=2))))


def test_different_values_have_different_seals() -> None:
    for values in (
        [None, "", "0", "None", "null", "\ud800", "\ud801"],
        [None, 0, False, 1],
        [None, b"", b"\0", b"0"],
        [None, UUID(int=0), UUID(int=1)],
        [None, timedelta(microseconds=1), timedelta(microseconds=2), timedelta(days=-1)],
        [None, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
    ):
        assert len({_seal(result=value) for value in values}) == len(values)
    assert _seal(tool="a", args="b") != _seal(tool="ab", args="")


def test_a_value_of_another_type_than_its_column_has_another_seal() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    microseconds = int(now.timestamp()) * 10**6
    for name, usual, others in (
        ("step", 1, ("1", 1.0, b"1", b"\x01")),
        ("step", 12, ("12", "1,2")),
        ("tool", "01", (b"\x01", 1)),
        ("run", UUID(int=1), ("01", 1, b"\x01")),
        ("verifiable", True, (1, "true")),
        ("issued_at", now, (microseconds, str(microseconds))),
        ("decide_within", timedelta(microseconds=1), (1, "1")),
    ):
        assert _seal(**{name: usual}) not in [_seal(**{name: other}) for other in others], name
    values, sealer = dict.fromkeys(Message.sealed_fields), RowSealer(SealKey(bytes(32)), Message)
    assert sealer.compute_seal_of_named_values({**values, "chain": b"\x01"}) != sealer.compute_seal_of_named_values(
        {**values, "chain": "01"}
    )


def test_a_seal_that_begins_with_kept_columns_is_the_seal_of_the_row() -> None:
    sealer = RowSealer(SealKey(bytes(32)), ToolCall)
    values = {name: f"{name} é" for name in ToolCall.sealed_fields}
    start, changing = sealer.start_seal_with_stable_columns(values), row_seals.list_mutable_sealed_fields(ToolCall)
    for name in changing:
        changed = {**values, name: b"\0"}
        seal = sealer.finish_seal_with_changing_columns(start, [changed[name] for name in changing])
        assert (
            seal
            == sealer.compute_seal_of_named_values(changed)
            == sealer.compute_seal_of_ordered_values(tuple(changed.values()))
        )


def test_the_encoding_is_a_json_array_in_ascii() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    values = (None, True, 5, "é\ud800", CallStatus.ISSUED, b"\x01", memoryview(b"\x01"), UUID(int=7), moment)
    assert row_encoding.encode_values_as_json_array(values) == b'[null,true,5,"\\u00e9\\ud800","issued","01","01",7,-1]'
    assert row_encoding.encode_values_as_json_array([timedelta(seconds=1)]) == b"[1000000]"


def test_fields_are_sealed_in_the_order_of_the_hot_path() -> None:
    assert ChangingCallColumns._fields == row_seals.list_mutable_sealed_fields(ToolCall)
    assert row_seals.list_mutable_sealed_fields(Session) == CHANGING_COLUMNS
    assert Message.sealed_fields == ("segment", *NewMessage._fields[:4], "chain")
