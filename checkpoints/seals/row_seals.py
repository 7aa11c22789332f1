"""Seals of rows: compute and verify the keyed digest over the columns that a model declares as sealed."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from django.db import models

from checkpoints.exceptions import IntegrityError, RowNotSealed, SealError, SealKeyMissing
from checkpoints.seals.row_encoding import build_row_encoder
from checkpoints.seals.seal_keys import KEY_SETTING, SEAL_SIZE, SealKey, SealKeys, get_seal_keys


class RowSealer:
    """Computation of the seals of one model's rows by one key: what it needs for each row is looked up once.

    Each method does all of its work itself, because a call of a function takes longer than most of the steps.
    """

    def __init__(self, key: SealKey, model: type[models.Model]) -> None:
        names, changing = get_sealed_fields(model), list_mutable_sealed_fields(model)
        self.key = key
        self._begin = key.new_seals[str(model._meta.model_name)]
        self._select: Callable[[Mapping[str, Any]], tuple[Any, ...]] = itemgetter(*names)
        self._encode = build_row_encoder(model, names, "[", "]")
        stable = names[: len(names) - len(changing)]
        if stable:
            self._select_stable: Callable[[Mapping[str, Any]], tuple[Any, ...]] = itemgetter(*stable)
            self._encode_stable = build_row_encoder(model, stable, "[", ",")
            self._encode_changing = build_row_encoder(model, changing, "", "]")

    def compute_seal_of_named_values(self, values: Mapping[str, Any]) -> bytes:
        """Return the seal of a row with `values`, by the names of its fields; all sealed fields have to be given."""
        state = self._begin()
        state.update(self._encode(self._select(values)))
        return self.key.id + state.digest()  # type: ignore[no-any-return]

    def compute_seal_of_ordered_values(self, values: Sequence[Any]) -> bytes:
        """Return the seal of a row with `values`, in the order of its `sealed_fields`."""
        state = self._begin()
        state.update(self._encode(values))
        return self.key.id + state.digest()  # type: ignore[no-any-return]

    def start_seal_with_stable_columns(self, values: Mapping[str, Any]) -> SealStart:
        """Return the beginning of the seals of a row, from the values of its stable columns."""
        state = self._begin()
        state.update(self._encode_stable(self._select_stable(values)))
        return SealStart(self, state)

    def finish_seal_with_changing_columns(self, start: SealStart, values: Sequence[Any]) -> bytes:
        """Return the seal of a row that begins as `start` says, from its changing columns, in their order.

        It is what `compute_seal_of_named_values` returns for all of them.
        """
        state = start.state.copy()
        state.update(self._encode_changing(values))
        return self.key.id + state.digest()  # type: ignore[no-any-return]


class SealStart(NamedTuple):
    """Beginning of the seals of one row: the state of the digest after its stable columns, which are encoded once."""

    sealer: RowSealer
    state: Any


@cache
def get_row_sealer_of_key(key: SealKey, model: type[models.Model]) -> RowSealer:
    """Return what computes the seals of the rows of a model by a key."""
    return RowSealer(key, model)


def compute_row_seal(keys: SealKeys, row: models.Model) -> bytes:
    """Return the seal of a row as its object has it."""
    model: type[models.Model] = type(row)
    return get_row_sealer_of_key(keys.current, model).compute_seal_of_ordered_values(
        _get_sealed_column_reader(model)(row)
    )


def get_sealed_values_by_field(row: models.Model) -> dict[str, Any]:
    """Return the sealed columns of a row, by the names of its fields."""
    model: type[models.Model] = type(row)
    return dict(zip(get_sealed_fields(model), _get_sealed_column_reader(model)(row), strict=True))


def verify_row(row: Any) -> None:
    """Verify that a row that was read is one that this library wrote.

    Raises `IntegrityError` if its seal does not match its columns, `RowNotSealed` if it has none and one is required,
    and `SealKeyMissing` if it was sealed with a key that is not configured.
    """
    model: type[models.Model] = type(row)
    if not _is_seal_valid_if_present(
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


def is_row_genuine_or_sealing_off(row: Any) -> bool:
    """Return whether this library wrote a row, as far as this process can tell: without a key, it can tell of none.

    A row without a required seal, or with one by an unknown key, may have been invented.
    """
    try:
        verify_row(row)
    except SealError:
        return get_seal_keys() is None
    return True


def verify_sealed_columns(
    model: type[models.Model], values: Sequence[Any], seal: bytes | None, described_as: str
) -> None:
    """Verify the sealed columns of a row, in the order of its `sealed_fields`, as `verify_row` does."""
    if not _is_seal_valid_if_present(
        model, lambda: _remove_primary_key_if_not_sealed_yet(model, values), seal, lambda: described_as
    ):
        raise IntegrityError(str(model._meta.db_table), described_as, "its columns do not match its seal")


def _is_seal_valid_if_present(
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
    return hmac.compare_digest(get_row_sealer_of_key(key, model).compute_seal_of_ordered_values(read_values()), seal)


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


@cache
def _get_sealed_column_reader(model: type[models.Model]) -> Callable[[models.Model], tuple[Any, ...]]:
    """Return the function that reads the sealed columns of a row."""
    read = attrgetter(
        *[str(getattr(model._meta.get_field(name), "attname", name)) for name in get_sealed_fields(model)]
    )
    return (
        read
        if _get_revision_sealed_without_primary_key(model) is None
        else lambda row: _remove_primary_key_if_not_sealed_yet(model, read(row))
    )


def is_primary_key_unsealed(row: Any) -> bool:
    """Return whether the seal of a row does not cover its key yet: see `SealedModel.revision_without_key`."""
    revision = _get_revision_sealed_without_primary_key(type(row))
    return revision is not None and row.revision == revision


def _remove_primary_key_if_not_sealed_yet(model: type[models.Model], values: Sequence[Any]) -> tuple[Any, ...]:
    """Return sealed columns, in their order, without the key if the seal does not cover it yet."""
    revision = _get_revision_sealed_without_primary_key(model)
    names = get_sealed_fields(model)
    if revision is None or values[names.index("revision")] != revision:
        return tuple(values)
    place = names.index("id")
    return (*values[:place], None, *values[place + 1 :])


def _get_revision_sealed_without_primary_key(model: type[models.Model]) -> int | None:
    """Return the revision whose seal does not cover the primary key of a row; None if each revision's seal does."""
    revision: int | None = model.revision_without_key  # type: ignore[attr-defined]  # of `SealedModel`
    return revision


def list_mutable_sealed_fields(model: type[models.Model]) -> tuple[str, ...]:
    """List the sealed fields behind the stable ones, in the order of their encoding."""
    return get_sealed_fields(model)[model.stable_sealed_fields :]  # type: ignore[attr-defined]  # of `SealedModel`
