"""Errors of the witness, which notes the newest seal of each session outside the database."""

from __future__ import annotations

from checkpoints.exceptions.integrity_errors import IN_PROJECT, SealError


class WitnessError(SealError):
    """Base of errors about the witness, which keeps the newest heads of sessions outside the database."""

    code = "witness_error"


class WitnessUnreachable(WitnessError):
    """The database with the witness does not answer, or it or the disk of a file refuses what is noted in it.

    `path` names it.
    """

    code = "witness_unreachable"
    hint = (
        "Nothing was written. Look whether the database that HARNESS_WITNESS names runs, whether this machine reaches "
        "it, and whether its role may insert and read; for a file, whether this user may read and append to it, and "
        "whether its disk has room and no fault. Then try again."
    )

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"The witness {path} does not answer ({why}).")


class WitnessMissing(WitnessError):
    """The file or the table of the witness is not there, or cannot be used. `path` names it."""

    code = "witness_missing"
    hint = (
        "Nothing was run. Put the witness back. If it is lost, or this is the first time: `harness witness create "
        "--reason …` makes one from what the database holds now, and records that. "
        f"{IN_PROJECT}"
    )

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"The witness {path} cannot be used ({why}).")


class WitnessTruncated(WitnessError):
    """The witness is shorter than it was: `before` and `now` are its sizes, in bytes, files or rows."""

    code = "witness_truncated"
    hint = (
        "Nothing was run. Put the whole witness back. If it is lost, move the rest away and run `harness witness "
        "create --reason …`, which takes what the database holds now as the newest state, and records that. "
        f"{IN_PROJECT}"
    )

    def __init__(self, path: str, before: int, now: int, unit: str = "bytes") -> None:
        self.path, self.before, self.now = path, before, now
        super().__init__(f"The witness {path} had {before} {unit} and has {now}: somebody has truncated it.")


class WitnessDamaged(WitnessError):
    """A line of the witness was not written by this library.

    `position` is the byte at which it begins, or the key of its row.
    """

    code = "witness_damaged"
    hint = (
        "Nothing was run. Put a good copy of the witness back, or give this process the key that wrote the line. If "
        "there is none, move the witness away and run `harness witness create --reason …`. "
        f"{IN_PROJECT}"
    )

    def __init__(self, path: str, position: int, unit: str = "byte") -> None:
        self.path, self.position = path, position
        place = "at byte" if unit == "byte" else f"in {unit}"
        super().__init__(f"The witness {path} has a line {place} {position} that this library did not write.")


class WitnessAhead(WitnessError):
    """The witness knows a newer state of the session than the database: an old copy of it was put back.

    `known` is the number of the write that the witness knows, `stored` the one that the database has.
    """

    code = "witness_ahead"
    hint = (
        "Nothing was run. If nobody has restored a backup or released this session from quarantine with altered rows, "
        "somebody has put the database back. Otherwise `harness witness adopt --session … --reason …` takes what the "
        "database holds as the newest state; `--all` does after a restore. "
        f"{IN_PROJECT}"
    )

    def __init__(self, session_id: str, known: int, stored: int) -> None:
        self.session_id, self.known, self.stored = session_id, known, stored
        super().__init__(
            f"Session {session_id!r} is at write {stored} in the database, and the witness knows write {known}."
        )


class WitnessBehind(WitnessError):
    """The witness does not know the stored state of the session: it was lost or put back, or was not used for a write.

    `known` is the number of the last write that the witness knows, -1 for none, `stored` the one in the database.
    """

    code = "witness_behind"
    hint = (
        "Nothing was run. Put the newest copy of the witness back, and give HARNESS_WITNESS to every process. After a "
        "power failure, or if the witness is lost, `harness witness adopt --session … --reason …` takes what the "
        "database holds as the newest state. "
        f"{IN_PROJECT}"
    )

    def __init__(self, session_id: str, known: int, stored: int) -> None:
        self.session_id, self.known, self.stored = session_id, known, stored
        ends = "does not know the session" if known < 0 else f"ends at write {known}"
        super().__init__(f"Session {session_id!r} is at write {stored} in the database, and the witness {ends}.")
