"""Errors about seals, signatures of decisions, their keys, and sessions in quarantine."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Final

from checkpoints.exceptions.base_error import CheckpointsError

#: End of hints that name a command.
IN_PROJECT: Final = "In a Django project, run `manage.py` in place of `harness`."


class SealError(CheckpointsError):
    """Base of errors about seals. Nothing was run, and nothing of the row was returned."""

    code = "seal_error"


class IntegrityError(SealError):
    """A stored row is not one that this library wrote, or not in this place.

    `table` and `row` name it, `why` says what does not match. `is_alteration` says whether the row was altered for
    certain, so that its session is put under quarantine; the alternative is that something is not set up yet.
    `session_pk` is the key of the session with the row, if it is another one than that of the operation.
    """

    code = "integrity_error"
    is_alteration: ClassVar[bool] = True
    session_pk: int | None = None
    hint = (
        "Nothing was run. Compare the row with a backup: somebody has changed the database without this library, or "
        "it is damaged."
    )

    def __init__(self, table: str, row: str, why: str) -> None:
        self.table, self.row, self.why = table, row, why
        super().__init__(f"Row {row} of {table} was not written by this library: {why}.")


class RowNotSealed(IntegrityError):
    """A stored row has no seal, and the configuration requires one."""

    code = "row_not_sealed"
    is_alteration = False
    hint = (
        "Nothing was run. If an agent writes without HARNESS_SEAL_KEY, set it there. Its rows, and those from before "
        "sealing, are sealed once by `harness seal_sessions`; until then HARNESS_SEAL_REQUIRED=0 accepts them. If "
        "all rows were sealed, somebody has removed or invented one. "
        f"{IN_PROJECT}"
    )

    def __init__(self, table: str, row: str) -> None:
        super().__init__(table, row, "it has no seal")


class RowNotStored(IntegrityError):
    """The database has dropped a row that was inserted, without an error, so that nothing of the operation was written.

    `table` is that of the row.
    """

    code = "row_not_stored"
    is_alteration = False
    hint = (
        "Nothing was written. Look for a trigger, a rule or a policy of the table, or a view in its place, that this "
        "library has not made. Find out who has made it, remove it, and try again."
    )

    def __init__(self, table: str) -> None:
        self.table, self.row, self.why = table, "new row", "the database has dropped it"
        SealError.__init__(self, f"The database has not stored a new row of {table}, and has given no error.")


class DecisionNotSigned(IntegrityError):
    """Something depends on a decision of a person, and the site has not signed it, or there is none.

    `table` and `row` name the decision, or the call that has a status which only a person's decision gives.
    """

    code = "decision_not_signed"
    hint = (
        "Nothing was run. If the decision is from before signing, sign it once on the site with `harness "
        "sign_decisions`. If not, somebody has written it without the site: restore the rows, or delete the session. "
        f"{IN_PROJECT}"
    )

    def __init__(self, table: str, row: str, why: str = "the site has not signed it") -> None:
        super().__init__(table, row, why)


class DecisionSignatureInvalid(IntegrityError):
    """A decision is not as the site has signed it, was signed for another place, or its call does not follow it."""

    code = "decision_signature_invalid"
    hint = (
        "Nothing was run. Somebody has changed the decision or its call, or has copied it from elsewhere. Restore the "
        "rows from a backup and release the session, or delete the session."
    )

    def __init__(self, table: str, row: str, why: str = "its signature is not of these columns in this place") -> None:
        super().__init__(table, row, why)


class DecisionKeyUnknown(IntegrityError):
    """A decision was signed with a key that this process does not know. `key_id` names it, `known` those it knows."""

    code = "decision_key_unknown"
    is_alteration = False
    hint = (
        "Nothing was run. If the site has a new key, or had this one before, add its public key to "
        "HARNESS_DECISION_VERIFY_KEYS of this process. If not, somebody else has signed the decision."
    )

    def __init__(self, table: str, row: str, key_id: str, known: list[str]) -> None:
        self.key_id, self.known = key_id, known
        why = f"it is signed with the key {key_id}, and the configured keys are {', '.join(known)}"
        super().__init__(table, row, why)


class WitnessedSessionMissing(IntegrityError):
    """A session was not created, because the witness knows one of its name, which is not in the database.

    `session_id` is the name; `session_pk` and `known` are the key of the session that the witness knows, and the number
    of its last write.
    """

    code = "witnessed_session_missing"
    hint = (
        "Nothing was run. If HARNESS_WITNESS names the witness of another database, give this process the one of its "
        "own. If a backup was restored, or the process that deleted the session was killed: `harness "
        "witness adopt --session … --missing --reason …` notes that the session is gone, and its name can be used "
        "again. If not, somebody has deleted, renamed or moved it: `harness verify_integrity --all` names its row; "
        "restore it. "
        f"{IN_PROJECT}"
    )

    def __init__(self, session_id: str, session_pk: int, known: int) -> None:
        self.session_id, self.session_pk, self.known = session_id, session_pk, known
        self.table, self.row, self.why = "checkpoints_session", str(session_pk), "the database does not have it"
        CheckpointsError.__init__(
            self,
            f"Session {session_id!r} was not created: the witness knows a session of this name, with the key "
            f"{session_pk} and {known} writes, and the database does not have it.",
        )


class SessionQuarantined(SealError):
    """The session has a row that this library did not write, and stands still until an admin releases it."""

    code = "session_quarantined"
    hint = (
        "Nothing was run. The session's page and `harness verify_integrity --session` name the rows. After they were "
        "restored, an admin releases the session there or by release_quarantine. "
        f"{IN_PROJECT}"
    )

    def __init__(self, session_id: str, since: datetime) -> None:
        self.session_id, self.since = session_id, since
        super().__init__(f"Session {session_id!r} is quarantined since {since:%Y-%m-%d %H:%M} UTC.")


class NotQuarantined(SealError):
    """The session is not quarantined, so there is nothing to release."""

    code = "not_quarantined"
    hint = "Read the session again: somebody else may have released it. Nothing was changed."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} is not quarantined.")


class QuarantineStays(SealError):
    """A quarantined session still has rows that this library did not write. `table` and `row` name the first of them.

    `count` is their number.
    """

    code = "quarantine_stays"
    hint = (
        "Restore the rows from a backup and release the session then. accept_altered=True seals rows as they are; an "
        "altered transcript can only be restored, or the session be deleted. Nothing was changed."
    )

    def __init__(self, session_id: str, count: int, table: str, row: str) -> None:
        self.session_id, self.count, self.table, self.row = session_id, count, table, row
        super().__init__(f"Session {session_id!r} stays quarantined: row {row} of {table} does not match.")


class SealKeyMissing(SealError):
    """A seal was made with a key that this process does not have.

    `key_id` is the id of that key; None if this process has no key at all.
    """

    code = "seal_key_missing"
    hint = (
        "Give every process HARNESS_SEAL_KEY or HARNESS_SEAL_KEY_FILE, with the former keys after the present one. "
        "Nothing was run."
    )

    def __init__(self, why: str, key_id: str | None = None) -> None:
        self.key_id = key_id
        super().__init__(f"Seals cannot be verified: {why}.")


class SealKeyInvalid(SealError):
    """A configured key of seals cannot be used."""

    code = "seal_key_invalid"
    hint = (
        "Correct the setting: a new key does not verify rows that are sealed already. The first key is made with: "
        'python -c "import secrets; print(secrets.token_hex(32))". Nothing was run.'
    )

    def __init__(self, why: str) -> None:
        super().__init__(f"The keys of seals cannot be used: {why}.")


class DecisionSigningKeyMissing(SealError):
    """This process requires signed decisions, and cannot sign one of a person. `kind` is that of the decision."""

    code = "decision_signing_key_missing"
    hint = (
        "Nothing was recorded. Decide on the site, by its HTTP API or on its host: only the site has "
        "HARNESS_DECISION_SIGNING_KEY."
    )

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(f"The decision {kind!r} has to be signed, and this process has no signing key.")


class DecisionKeyInvalid(SealError):
    """A configured key of the signatures of decisions cannot be used."""

    code = "decision_key_invalid"
    hint = (
        "Correct the setting: agents do not know the public key of a new pair. `harness make_decision_keys` makes "
        "the first pair and prints both settings. Nothing was run. "
        f"{IN_PROJECT}"
    )

    def __init__(self, why: str, hint: str = "") -> None:
        self.hint = hint or self.hint
        super().__init__(f"The keys of decisions cannot be used: {why}.")
