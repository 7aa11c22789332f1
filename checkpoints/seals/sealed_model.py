"""Base of the models whose rows are sealed.

The ORM's own ways to write (`save`, `create`, `bulk_create`, `update`, `bulk_update`) seal what they write, and verify
what they change before they change it, so that no write gives a seal to a row that somebody else has altered. The hot
statements, which bypass the ORM, compute the seals of their rows themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from django.db import models, router, transaction

from checkpoints.exceptions import IntegrityError
from checkpoints.seals import row_seals, session_heads
from checkpoints.seals.dropped_insert_detection import CheckedInsertModel, CheckedInsertQuerySet
from checkpoints.seals.seal_keys import SEAL_SIZE, SealKeys, get_seal_keys
from checkpoints.seals.session_heads import RowChanges

SomeModel = TypeVar("SomeModel", bound=models.Model)
#: Number of stored rows whose seals one statement writes.
_SEALS_PER_STATEMENT = 200


class SealingQuerySet(CheckedInsertQuerySet[SomeModel]):
    """Query set whose `update` and `bulk_create` seal the rows. Without a key they are Django's own."""

    def update(self, **changes: Any) -> int:
        """Update the rows and their seals. Raises `IntegrityError` for a row that does not match its seal."""
        keys = get_seal_keys()
        if keys is None or not _is_any_field_sealed(self.model, changes):
            return super().update(**changes)
        with transaction.atomic(using=self.db):
            _lock_sessions_of_rows(self, keys)
            rows = list(self.order_by().select_for_update(of=("self",)))
            row_seals.verify_rows(rows)
            pks = [row.pk for row in rows]
            count = models.QuerySet.update(self.filter(pk__in=pks), **changes) if pks else 0
            written = {row.pk: _apply_update_and_get_literal_values(row, changes) for row in rows}
            _seal_rows_and_update_heads(self.model, self.db, pks, keys, written=written)
        return count

    update.alters_data = True  # type: ignore[attr-defined]

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the rows, and subtract them from the heads of their sessions."""
        keys = get_seal_keys()
        if keys is None or not _is_counted_in_session_head(self.model):
            return super().delete()
        with transaction.atomic(using=self.db):
            _lock_sessions_of_rows(self, keys)
            changes: defaultdict[int, RowChanges] = defaultdict(RowChanges)
            for session_pk, seal in self.order_by().values_list("session_id", "row_seal"):
                changes[session_pk].add_row_change(self.model, seal, None)
            deleted = super().delete()
            session_heads.apply_row_changes_to_heads(self.db, changes, keys)
        return deleted

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[SomeModel], *args: Any, **kwargs: Any) -> list[SomeModel]:
        """Insert the rows with their seals."""
        rows = list(objs)
        keys = get_seal_keys()
        if keys is None or kwargs.get("ignore_conflicts"):  # the caller finds out which rows are new, and seals them
            return super().bulk_create(rows, *args, **kwargs)
        incomplete = [row for row in rows if not _try_seal_new_row(row, keys)]
        if not (incomplete or _is_counted_in_session_head(self.model)):
            return super().bulk_create(rows, *args, **kwargs)
        values = [_get_literal_sealed_values_by_column(row) for row in incomplete]
        with transaction.atomic(using=self.db):
            created = super().bulk_create(rows, *args, **kwargs)
            written = {row.pk: given for row, given in zip(incomplete, values, strict=True)}
            _add_rows_to_heads(self.model, self.db, [row for row in rows if row.row_seal], keys)  # type: ignore[attr-defined]
            if incomplete:
                pks = [row.pk for row in incomplete]
                seals = _seal_rows_and_update_heads(self.model, self.db, pks, keys, written=written)
                for row in incomplete:
                    row.row_seal = seals[row.pk]  # type: ignore[attr-defined]
        return created


class SealedModel(CheckedInsertModel):
    """Model whose rows are sealed.

    `sealed_fields` are the names of the fields in the seal, in the order of their encoding, and `unsealed_fields` the
    other ones, each with the reason why it means nothing or is protected otherwise.
    """

    sealed_fields: ClassVar[tuple[str, ...]] = ()
    unsealed_fields: ClassVar[Mapping[str, str]] = {}
    #: Number of the first sealed fields that most hot statements do not change, so that these encode them once.
    stable_sealed_fields: ClassVar[int] = 0
    #: Revision in which the seal of a row does not cover its key, because the statement that inserts it does not know
    #: the key yet; None if there is none. Every later revision covers it, so that rows which name it have their place.
    revision_without_key: ClassVar[int | None] = None
    #: Whether the rows are in the sum of their session's head.
    counted_in_head: ClassVar[bool] = False

    #: Id of the key and keyed digest over the sealed fields; NULL if the row was written without a key.
    row_seal = models.BinaryField(max_length=SEAL_SIZE, null=True)

    objects = SealingQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the row with its seal. Raises `IntegrityError` if the stored row does not match its seal."""
        keys, names = get_seal_keys(), kwargs.get("update_fields")
        model = type(self)
        if keys is None or (names is not None and not _is_any_field_sealed(model, names)):
            super().save(*args, **kwargs)
            return
        using = kwargs.get("using") or router.db_for_write(model, instance=self)
        if self._state.adding and _try_seal_new_row(self, keys):
            if not _is_counted_in_session_head(model):
                super().save(*args, **kwargs)
                return
            with transaction.atomic(using=using):
                super().save(*args, **kwargs)
                _add_rows_to_heads(model, using, [self], keys)
            return
        with transaction.atomic(using=using):
            if not self._state.adding:
                _lock_sessions_of_rows(_select_rows_with_plain_queryset(model, using, [self.pk]), keys)
                stored_rows = list(_select_rows_with_plain_queryset(model, using, [self.pk]).select_for_update())
                row_seals.verify_rows(stored_rows)
                if model is session_heads.get_session_model():
                    session_heads.copy_stored_head_columns(stored_rows, self)
            is_new, written = self._state.adding, _get_literal_sealed_values_by_column(self)
            if names is not None:
                written = {
                    name: value for name, value in written.items() if {name, name.removesuffix("_id")} & {*names}
                }
            super().save(*args, **kwargs)
            seals = _seal_rows_and_update_heads(model, using, [self.pk], keys, written={self.pk: written})
            self.row_seal = seals[self.pk]
            if is_new:
                _refresh_columns_computed_by_database(self, using)

    save.alters_data = True  # type: ignore[attr-defined]


def seal_unsaved_rows_and_compute_sum(rows: Sequence[Any]) -> int:
    """Seal complete rows of one counted model that SQL inserts past the ORM. Nothing without a key.

    Returns what they add to the sum of their session, whose head the caller writes in the same transaction.
    """
    keys, difference = get_seal_keys(), 0
    if keys is not None:
        for row in rows:
            row.row_seal = row_seals.compute_row_seal(keys, row)
            difference += session_heads.compute_row_sum_term(keys, type(row), row.row_seal)
    return difference


def seal_stored_rows(rows: models.QuerySet[Any], *, counted: bool = True) -> None:
    """Seal rows that SQL has written past the ORM, in the transaction that wrote them. Nothing without a key.

    If `counted` is False, the caller writes the head of their session.
    """
    keys = get_seal_keys()
    if keys is not None:
        _seal_rows_and_update_heads(rows.model, rows.db, list(rows.values_list("pk", flat=True)), keys, counted=counted)


def write_sealed_workspace_report(model: type[SomeModel], using: str, workspace_pk: int, **columns: Any) -> SomeModel:
    """Write the report of a workspace, and seal it. What the one before said, and whether it was altered, is lost.

    The row is updated, not deleted, so that a role without the right to delete may write it.

    Args:
        model: Sealed model with one row for each workspace.
        using: Connection alias.
        workspace_pk: Key of the workspace.
        columns: Values of the report.

    Returns:
        The row as it is stored.
    """
    stored: models.QuerySet[SomeModel] = models.QuerySet(model, using=using).filter(workspace=workspace_pk)
    with transaction.atomic(using=using):
        if not stored.update(**columns):
            stored.bulk_create([model(workspace_id=workspace_pk, **columns)])
        seal_stored_rows(stored)
        return stored.get()


def _is_counted_in_session_head(model: type[models.Model]) -> bool:
    return bool(getattr(model, "counted_in_head", False))


def _lock_sessions_of_rows(rows: models.QuerySet[Any], keys: SealKeys) -> None:
    """Lock the sessions of rows that are about to change, before the rows."""
    if _is_counted_in_session_head(rows.model):
        session_heads.lock_sessions(rows.db, list(rows.order_by().values_list("session_id", flat=True).distinct()))


def _add_rows_to_heads(model: type[models.Model], using: str, rows: Sequence[Any], keys: SealKeys) -> None:
    """Add rows that were inserted with their seals to the heads of their sessions."""
    if not _is_counted_in_session_head(model):
        return
    changes: defaultdict[int, RowChanges] = defaultdict(RowChanges)
    for row in rows:
        changes[row.session_id].add_row_change(model, None, row.row_seal)
    session_heads.apply_row_changes_to_heads(using, changes, keys)


def _is_any_field_sealed(model: type[models.Model], names: Iterable[str]) -> bool:
    sealed = {*row_seals.get_sealed_fields(model)}
    return any(name.removesuffix("_id") in sealed or name in sealed for name in names)


def _try_seal_new_row(row: Any, keys: SealKeys) -> bool:
    """Seal a new row whose sealed columns are all known. Returns False if the database gives one of them."""
    model: type[models.Model] = type(row)
    for name in row_seals.get_sealed_fields(model):
        field = row._meta.get_field(name)
        value = getattr(row, field.attname)
        is_key_missing = field.primary_key and value is None and not row_seals.is_primary_key_unsealed(row)
        if hasattr(value, "resolve_expression") or is_key_missing:
            return False
    row.row_seal = row_seals.compute_row_seal(keys, row)
    return True


def _refresh_columns_computed_by_database(row: models.Model, using: str) -> None:
    """Read the columns of an inserted row that its object does not have.

    Whether Django reads them with the insert depends on the default connection, which a program that opens a client by
    a URL does not have.
    """
    names = [field.attname for field in row._meta.concrete_fields]
    given = [name for name in names if hasattr(getattr(row, name), "resolve_expression")]
    if given:
        row.refresh_from_db(using=using, fields=given)


def _select_rows_with_plain_queryset(model: type[models.Model], using: str, pks: Sequence[Any]) -> models.QuerySet[Any]:
    """Select rows by a query set that does not seal."""
    return models.QuerySet(model, using=using).filter(pk__in=pks)


def _seal_rows_and_update_heads(
    model: type[models.Model],
    using: str,
    pks: Sequence[Any],
    keys: SealKeys,
    *,
    counted: bool = True,
    written: Mapping[Any, Mapping[str, Any]] | None = None,
) -> dict[Any, bytes]:
    """Seal rows as they are stored now, inside the transaction that wrote them. Returns the seals by key.

    `written` has the values that were written, by key and column. Raises `IntegrityError` if the database has stored
    another one, as with a trigger or a rule: it gets no seal.
    """
    if model is session_heads.get_session_model():
        sessions = list(_select_rows_with_plain_queryset(model, using, pks))
        _require_values_stored(sessions, written)
        return {row.pk: _write_next_session_head_and_get_seal(row, using, keys) for row in sessions}
    seals = {}
    changes: defaultdict[int, RowChanges] = defaultdict(RowChanges)
    is_counted = counted and _is_counted_in_session_head(model)
    rows = list(_select_rows_with_plain_queryset(model, using, pks))
    _require_values_stored(rows, written)
    for row in rows:
        seals[row.pk] = row_seals.compute_row_seal(keys, row)
        if is_counted:
            changes[row.session_id].add_row_change(model, row.row_seal, seals[row.pk])
        row.row_seal = seals[row.pk]
    models.QuerySet(model, using=using).bulk_update(rows, ["row_seal"], batch_size=_SEALS_PER_STATEMENT)
    session_heads.apply_row_changes_to_heads(using, changes, keys)
    return seals


def _get_literal_sealed_values_by_column(row: models.Model) -> dict[str, Any]:
    """List the sealed columns of a row that its object has, and that the database does not compute."""
    fields = [row._meta.get_field(name) for name in row_seals.get_sealed_fields(type(row))]
    values = {field: getattr(row, field.attname) for field in fields if not field.primary_key}  # type: ignore[union-attr]
    return {
        field.attname: field.to_python(value)  # type: ignore[union-attr]
        for field, value in values.items()
        if not hasattr(value, "resolve_expression")
    }


def _apply_update_and_get_literal_values(row: models.Model, changes: Mapping[str, Any]) -> dict[str, Any]:
    """List the sealed columns that a row has to have after `changes`; those that the database computes are left out."""
    for name, value in changes.items():
        field: Any = row._meta.get_field(name)
        setattr(row, field.attname, value.pk if isinstance(value, models.Model) else value)
    return _get_literal_sealed_values_by_column(row)


def _require_values_stored(rows: Sequence[models.Model], written: Mapping[Any, Mapping[str, Any]] | None) -> None:
    """Require that rows have the values with which they were written. Raises `IntegrityError`."""
    for row in rows if written else ():
        for name, value in (written or {}).get(row.pk, {}).items():
            stored = getattr(row, name)
            if stored != value and _convert_buffer_to_bytes(stored) != _convert_buffer_to_bytes(value):
                why = f"the database stores another {name} than was written: look for a trigger or a rule of the table"
                raise IntegrityError(row_seals.get_table_name(row), row_seals.describe_row(row), why)


def _convert_buffer_to_bytes(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else value


def _write_next_session_head_and_get_seal(row: Any, using: str, keys: SealKeys) -> bytes:
    head = session_heads.build_unverified_head(row, keys)
    newest_seal = session_heads.find_newest_version_seal_after_change(using, head, RowChanges())
    head = head.compute_next_head(keys, 0, {"newest_seal": newest_seal})
    session_heads.write_head_and_record_in_witness(using, head)
    assert head.seal is not None  # noqa: S101 - of a head that was advanced
    return head.seal
