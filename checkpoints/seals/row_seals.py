"""Seals of rows: compute and verify the keyed digest over the columns that a model declares as sealed."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from django.db import models

from checkpoints.exceptions import IntegrityError, RowNotSealed, SealError, SealKeyMissing
from checkpoints.seals.row_encoding import RowEncoder, build_row_encoder
from checkpoints.seals.seal_keys import KEY_SETTING, SEAL_SIZE, SealKey, SealKeys, get_seal_keys


def compute_seal_from_named_values(keys: SealKeys, model: type[models.Model], values: Mapping[str, Any]) -> bytes:
    """Return the seal of a row with `values`, by the names of its fields; all sealed fields have to be given."""
    select, encode, purpose = _get_model_encoding(model)
    return keys.current.compute_seal(purpose, encode(select(values)))


class SealStart(NamedTuple):
    """Beginning of the seals of one row: the state of the digest after its stable columns, which are encoded once, and
    the function that encodes the others."""

    key: SealKey
    state: Any
    encode: RowEncoder


def start_row_seal(keys: SealKeys, model: type[models.Model], values: Mapping[str, Any]) -> SealStart:
    """Return the beginning of the seals of a row, from the values of its stable columns."""
    select, encode, purpose = _get_stable_encoding(model)
    state = keys.current.start_seal(purpose, encode(select(values)))
    return SealStart(keys.current, state, _get_encoder_of_changing_fields(model))


def finish_row_seal(start: SealStart, values: Sequence[Any]) -> bytes:
    """Return the seal of a row that begins as `start` says, from the values of its changing columns, in their order.

    It is what `compute_seal_from_named_values` returns for all of them.
    """
    state = start.state.copy()
    state.update(start.encode(values))
    return start.key.id + state.digest()  # type: ignore[no-any-return]


def compute_row_seal(keys: SealKeys, row: models.Model) -> bytes:
    """Return the seal of a row as its object has it."""
    model: type[models.Model] = type(row)
    return compute_seal_from_ordered_values(keys, model, _get_sealed_column_reader(model)(row))


def read_sealed_columns(row: models.Model) -> dict[str, Any]:
    """Return the sealed columns of a row, by the names of its fields."""
    model: type[models.Model] = type(row)
    return dict(zip(get_sealed_fields(model), _get_sealed_column_reader(model)(row), strict=True))


def verify_row(row: Any) -> None:
    """Verify that a row that was read is one that this library wrote.

    Raises `IntegrityError` if its seal does not match its columns, `RowNotSealed` if it has none and one is required,
    and `SealKeyMissing` if it was sealed with a key that is not configured.
    """
    model: type[models.Model] = type(row)
    if not _is_seal_valid(
        model, lambda: _get_sealed_column_reader(model)(row), row.row_seal, lambda: describe_row(row)
    ):
        raise IntegrityError(get_table_name(row), describe_row(row), "its columns do not match its seal")


def is_row_altered(row: Any) -> bool:
    """Return whether a row was altered for certain. One without a seal may be from before sealing."""
    try:
        verify_row(row)
    except SealError as error:
        return isinstance(error, IntegrityError) and error.is_alteration
    return False


def verify_columns(model: type[models.Model], values: Sequence[Any], seal: bytes | None, described_as: str) -> None:
    """Verify the sealed columns of a row, in the order of its `sealed_fields`, as `verify_row` does."""
    if not _is_seal_valid(model, lambda: _remove_unsealed_primary_key(model, values), seal, lambda: described_as):
        raise IntegrityError(str(model._meta.db_table), described_as, "its columns do not match its seal")


def _is_seal_valid(
    model: type[models.Model],
    read_values: Callable[[], Sequence[Any]],
    seal: Any,
    describe: Callable[[], str],
) -> bool:
    """Return whether columns match a seal. Raises `RowNotSealed`, `SealKeyMissing`."""
    keys = get_seal_keys()
    if keys is None:
        if seal:
            raise SealKeyMissing(f"the rows are sealed, and {KEY_SETTING} is empty")
        return True
    if not seal:
        if keys.required:
            raise RowNotSealed(str(model._meta.db_table), describe())
        return True
    if not isinstance(seal, bytes | memoryview) or len(seal) != SEAL_SIZE:  # SQLite stores any type in any column
        return False
    seal = bytes(seal)
    key = keys.get_key_of_seal(seal)
    _, encode, purpose = _get_model_encoding(model)
    return hmac.compare_digest(key.compute_seal(purpose, encode(read_values())), seal)


def verify_rows(rows: Iterable[Any]) -> None:
    """Verify each of `rows`, as `verify_row` does."""
    for row in rows:
        verify_row(row)


def get_table_name(row: models.Model) -> str:
    return str(row._meta.db_table)


def describe_row(row: models.Model) -> str:
    """Describe a row for an error: its key, and what it is called."""
    try:
        return f"{row.pk} ({row})"
    except TypeError:  # its name is no text in SQLite
        return str(row.pk)


@cache
def get_sealed_fields(model: type[models.Model]) -> tuple[str, ...]:
    """Return the names of the sealed fields of a model, in the order of their encoding."""
    names: tuple[str, ...] = model.sealed_fields  # type: ignore[attr-defined]  # of `SealedModel`
    return names


class _Encoding(NamedTuple):
    """How columns of a model are selected from values by the names of their fields, and encoded; the seal's purpose."""

    select: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    encode: RowEncoder
    purpose: str


@cache
def _get_model_encoding(model: type[models.Model]) -> _Encoding:
    return _build_encoding(model, get_sealed_fields(model), "[", "]")


@cache
def _get_stable_encoding(model: type[models.Model]) -> _Encoding:
    return _build_encoding(model, get_sealed_fields(model)[: _count_stable_fields(model)], "[", ",")


@cache
def _get_encoder_of_changing_fields(model: type[models.Model]) -> RowEncoder:
    return build_row_encoder(model, list_changing_fields(model), "", "]")


def _build_encoding(model: type[models.Model], names: tuple[str, ...], opening: str, closing: str) -> _Encoding:
    encode = build_row_encoder(model, names, opening, closing)
    return _Encoding(itemgetter(*names), encode, str(model._meta.model_name))


@cache
def _get_sealed_column_reader(model: type[models.Model]) -> Callable[[models.Model], tuple[Any, ...]]:
    """Return the function that reads the sealed columns of a row."""
    read = attrgetter(
        *[str(getattr(model._meta.get_field(name), "attname", name)) for name in get_sealed_fields(model)]
    )
    return (
        read if _get_revision_without_key(model) is None else lambda row: _remove_unsealed_primary_key(model, read(row))
    )


def is_primary_key_unsealed(row: Any) -> bool:
    """Return whether the seal of a row does not cover its key yet: see `SealedModel.revision_without_key`."""
    revision = _get_revision_without_key(type(row))
    return revision is not None and row.revision == revision


def _remove_unsealed_primary_key(model: type[models.Model], values: Sequence[Any]) -> tuple[Any, ...]:
    """Return sealed columns, in their order, without the key if the seal does not cover it yet."""
    revision = _get_revision_without_key(model)
    names = get_sealed_fields(model)
    if revision is None or values[names.index("revision")] != revision:
        return tuple(values)
    place = names.index("id")
    return (*values[:place], None, *values[place + 1 :])


def _get_revision_without_key(model: type[models.Model]) -> int | None:
    revision: int | None = model.revision_without_key  # type: ignore[attr-defined]  # of `SealedModel`
    return revision


def list_changing_fields(model: type[models.Model]) -> tuple[str, ...]:
    """List the sealed fields behind the stable ones, in the order of their encoding."""
    return get_sealed_fields(model)[_count_stable_fields(model) :]


def _count_stable_fields(model: type[models.Model]) -> int:
    return int(model.stable_sealed_fields)  # type: ignore[attr-defined]  # of `SealedModel`


def compute_seal_from_ordered_values(keys: SealKeys, model: type[models.Model], values: Sequence[Any]) -> bytes:
    """Return the seal of a row with `values`, in the order of its `sealed_fields`."""
    _, encode, purpose = _get_model_encoding(model)
    return keys.current.compute_seal(purpose, encode(values))
