"""Verification of all rows of a workspace, which stores how far it came and what it found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models.functions import Now

from checkpoints.exceptions import SealError
from checkpoints.integrity import mistyped_values, quarantine
from checkpoints.integrity.find_and_accept_missing_sessions import MissingSession
from checkpoints.integrity.verify_session_rows import (
    IntegrityProblem,
    VerificationCounts,
    iterate_problems_of_early_responses,
    iterate_problems_of_sessions,
    iterate_session_problems,
)
from checkpoints.models import IntegrityCheck, Session, Workspace
from checkpoints.seals import row_seals, sealed_model

#: Number of sessions after which the progress is stored.
BATCH_SIZE = 200
#: Largest number of messages, versions and writes of the sessions that are verified together, unless it is one session.
_MAX_ROWS_TOGETHER = 6000
#: Largest number of altered rows that the stored result names.
MAX_NAMED_PROBLEMS = 20


@dataclass
class CheckedSession:
    """Session that was verified, and its rows that are not as they were written.

    Without a key and a name it stands for the rows of a workspace that belong to no session. After one whose
    `is_progress_stored` is true, an interrupted verification goes on.
    """

    pk: int | None
    session_id: str
    problems: list[IntegrityProblem] = field(default_factory=list)
    is_progress_stored: bool = False


def iterate_checked_sessions_of_workspace_and_quarantine_altered(
    using: str,
    workspace_pk: int,
    counts: VerificationCounts,
    *,
    resume: bool = False,
    missing: Iterable[MissingSession] = (),
) -> Iterator[CheckedSession]:
    """Verify all sessions of a workspace, and store the result for its audit page.

    Sessions with altered rows are put under quarantine.

    Args:
        using: Connection alias.
        workspace_pk: Key of the workspace.
        counts: Gets the number of rows that were verified.
        resume: Whether to go on where the last verification ended, if it was interrupted. One whose stored result was
            altered begins again.
        missing: Sessions that the database lacks, of all workspaces.

    Yields:
        Each session, and at the end the rows that belong to no session, with the missing
        sessions of the workspace.
    """
    check = IntegrityCheck.objects.using(using).filter(workspace=workspace_pk).first()
    if check is None or check.finished or not (resume and has_check_valid_seal(check)):
        check = _reset_stored_check_result(using, workspace_pk)
    rows_before, named = counts.rows - check.rows, json.loads(check.named)
    keys = Session.objects.using(using).filter(workspace=workspace_pk).order_by("pk").values_list("pk", flat=True)
    while batch := list(keys.filter(pk__gt=check.reached)[:BATCH_SIZE]):
        last: CheckedSession | None = None
        for checked in iterate_checked_sessions_and_quarantine_unreadable(using, batch, counts):
            if last is not None:
                yield last
            check.sessions += 1
            named += _count_problems_and_encode_unreported(check, checked, named)
            last = checked
        check.reached, check.rows = batch[-1], counts.rows - rows_before
        _save_check_progress(using, check, named)
        if last is not None:  # else all of them were deleted meanwhile
            last.is_progress_stored = True
            yield last
    others = CheckedSession(None, "", list(iterate_problems_of_early_responses(using, workspace_pk, counts)))
    others.problems += [session.to_problem() for session in missing if session.workspace_pk == workspace_pk]
    named += _count_problems_and_encode_unreported(check, others, named)
    yield others
    check.finished, check.rows = True, counts.rows - rows_before
    _save_check_progress(using, check, named)


def _reset_stored_check_result(using: str, workspace_pk: int) -> IntegrityCheck:
    """Replace the stored result of a workspace by an empty one."""
    return sealed_model.write_sealed_workspace_report(
        IntegrityCheck,
        using,
        workspace_pk,
        started_at=Now(),
        reached_at=Now(),
        reached=0,
        finished=False,
        sessions=0,
        rows=0,
        problems=0,
        named="[]",
    )


def iterate_checked_sessions_and_quarantine_unreadable(
    using: str, session_pks: Sequence[int], counts: VerificationCounts
) -> Iterator[CheckedSession]:
    """Verify sessions as `iterate_checked_sessions_and_quarantine_altered` does, if their rows can be read at all.

    A session that has a value of another type than its column is put under quarantine, and nothing else of it is read.

    Args:
        using: Connection alias.
        session_pks: Keys of the sessions, in the order of the keys.
        counts: Gets the number of rows that were verified.

    Yields:
        Each session: first those that cannot be read, then the others in the order of the keys.
    """
    unreadable: defaultdict[int, list[IntegrityProblem]] = defaultdict(list)
    for value in mistyped_values.iterate_mistyped_values_of_sessions(using, session_pks):
        unreadable[value.session_pk].append(IntegrityProblem.from_mistyped_value(value))
    for session_pk, problems in unreadable.items():
        name = Session.objects.using(using).filter(pk=session_pk).values_list("session_id", flat=True).first()
        quarantine.quarantine_session_if_altered(using, session_pk, noticed_by="verify_integrity")
        yield CheckedSession(session_pk, str(name), problems)
    readable = [pk for pk in session_pks if pk not in unreadable]
    sessions = list(Session.objects.using(using).filter(pk__in=readable).order_by("pk"))
    yield from iterate_checked_sessions_and_quarantine_altered(using, sessions, counts)


def iterate_checked_sessions_and_quarantine_altered(
    using: str, sessions: Sequence[Session], counts: VerificationCounts
) -> Iterator[CheckedSession]:
    """Verify sessions, as many together as are small, and put those with altered rows under quarantine.

    Args:
        using: Connection alias.
        sessions: The sessions.
        counts: Gets the number of rows that were verified.

    Yields:
        Each session, in their order.

    Raises:
        SealKeyMissing: A row is sealed, and no key is configured at all.
    """
    for group in _group_small_sessions(sessions):
        rows_before = counts.rows
        try:
            suspects = {session_pk for session_pk, _ in iterate_problems_of_sessions(using, group, counts)}
        except Exception:
            if len(group) == 1:
                raise
            counts.rows = rows_before
            for session in group:  # that of the row that cannot be read raises the error again
                yield from iterate_checked_sessions_and_quarantine_altered(using, [session], counts)
            continue
        for session in group:
            checked = CheckedSession(session.pk, session.session_id)
            if session.pk in suspects:
                checked.problems = _lock_session_and_list_problems(using, session.pk)
            if any(problem.is_alteration for problem in checked.problems):
                quarantine.quarantine_session_if_altered(using, session.pk, noticed_by="verify_integrity")
            yield checked


def _lock_session_and_list_problems(using: str, session_pk: int) -> list[IntegrityProblem]:
    """List the rows of a session that are not as they were written, while no other process changes them."""
    with transaction.atomic(using=using):
        locked = Session.objects.using(using).select_for_update().filter(pk=session_pk).first()
        return [] if locked is None else list(iterate_session_problems(using, locked, VerificationCounts()))


def _group_small_sessions(sessions: Sequence[Session]) -> list[list[Session]]:
    """Divide sessions into groups that have few rows together, and large sessions, which stand alone."""
    groups: list[list[Session]] = []
    rows = 0
    for session in sessions:
        size = session.message_count + session.latest_version + session.head_number  # states of frameworks are writes
        if groups and rows + size <= _MAX_ROWS_TOGETHER:
            groups[-1].append(session)
        else:
            groups.append([session])
            rows = 0
        rows += size
    return groups


def has_check_valid_seal(check: IntegrityCheck) -> bool:
    """Return whether `verify_integrity` has written a stored result."""
    try:
        row_seals.verify_row(check)
    except SealError:
        return False
    return True


def list_workspace_keys_to_check(using: str, *, resume: bool = False) -> list[int]:
    """List the keys of the workspaces that a verification of all sessions reads, in its order.

    With `resume` it begins with the first one whose verification was interrupted, or whose stored result was altered.
    """
    workspaces = list(Workspace.objects.using(using).order_by("pk").values_list("pk", flat=True))
    if not resume:
        return workspaces
    checks = IntegrityCheck.objects.using(using).order_by("workspace")
    open_checks = (check.workspace_id for check in checks if not (check.finished and has_check_valid_seal(check)))
    first = next(open_checks, 0)
    return [pk for pk in workspaces if pk >= first]


def _count_problems_and_encode_unreported(
    check: IntegrityCheck, checked: CheckedSession, named: Sequence[dict[str, str]]
) -> list[dict[str, str]]:
    """Count the problems of a session in the result, and return what the result says about them.

    A key that is not configured is named once, because all sessions may have it.
    """
    check.problems += len(checked.problems)
    known = {entry["why"] for entry in named}
    return [
        {"session": checked.session_id, **problem.to_dict()}
        for problem in checked.problems
        if problem.unknown_key is None or problem.why not in known
    ]


def _save_check_progress(using: str, check: IntegrityCheck, named: list[dict[str, str]]) -> None:
    check.named = json.dumps(named[:MAX_NAMED_PROBLEMS])
    check.reached_at = Now()
    check.save(using=using)
