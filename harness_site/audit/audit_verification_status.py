"""State of a workspace's audit chain, and the results of its last verifications."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from checkpoints.enums import AuditKind
from checkpoints.exceptions import IntegrityError, RowNotSealed, SealError
from checkpoints.formats import parse_json_or_return_text
from checkpoints.models import AuditChain, AuditEvent, IntegrityCheck
from checkpoints.seals import row_seals
from checkpoints.seals.decision_keys import get_decision_keys
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.audit.audit_trail_query import PAGE_VIEWS


@dataclass(frozen=True, slots=True)
class ChainIntegrity:
    """The end of the chain, how many entries wait for their seal, and what the last verification found.

    `flaw` says why that report is not to be believed, as in `RowsCheck`.
    """

    number: int
    seal: str
    waiting: int
    verified_at: datetime | None
    verified_number: int
    problem: str
    flaw: str

    @property
    def entry_count(self) -> int:
        return self.number + self.waiting

    @property
    def unverified_count(self) -> int:
        """Number of the entries since the last verification, which is itself one of them."""
        return self.entry_count - self.verified_number


@dataclass(frozen=True, slots=True)
class RowsCheck:
    """Last verification of all rows of a workspace: whether it came to the end, and what it found.

    `problems` counts the rows that are not as they were written; `named` are the first of them. `flaw` says why the
    report itself is not to be believed: `altered`, `unsealed` or `unreadable`, without the key; empty if it is genuine.
    """

    flaw: str
    finished: bool
    reached_at: datetime
    sessions: int
    rows: int
    problems: int
    named: tuple[dict[str, str], ...]


def load_chain_state_and_last_verdict(workspace_pk: int) -> ChainIntegrity:
    chain = _query_audit_chain_state(workspace_pk).first() or AuditChain()
    return ChainIntegrity(
        chain.number,
        chain.seal,
        _query_unsealed_events(workspace_pk).count(),
        chain.verified_at,
        chain.verified_number,
        chain.problem,
        _find_report_seal_problem_or_empty(chain) if chain.has_verdict else "",
    )


def query_entries_since_verification_except_views(workspace_pk: int, chain: ChainIntegrity) -> QuerySet[AuditEvent]:
    """Query the entries since the last verification, other than page views and that verification itself."""
    if chain.verified_at is None:
        return AuditEvent.objects.none()
    unread = AuditEvent.objects.filter(Q(number=None) | Q(number__gt=chain.verified_number), workspace=workspace_pk)
    return unread.exclude(kind__in=PAGE_VIEWS | {AuditKind.AUDIT_VERIFIED})


def load_last_integrity_check(workspace_pk: int) -> RowsCheck | None:
    """Load the last verification of all rows of a workspace; None if there was none."""
    check = IntegrityCheck.objects.filter(workspace=workspace_pk).first()
    if check is None:
        return None
    named = parse_json_or_return_text(check.named)
    entries = [entry for entry in named if isinstance(entry, dict)] if isinstance(named, list) else []
    return RowsCheck(
        _find_report_seal_problem_or_empty(check),
        check.finished,
        check.reached_at,
        check.sessions,
        check.rows,
        check.problems,
        tuple({name: str(entry.get(name, "")) for name in ("session", "table", "row")} for entry in entries),
    )


def _find_report_seal_problem_or_empty(report: IntegrityCheck | AuditChain) -> str:
    try:
        row_seals.verify_row(report)
    except RowNotSealed:
        return "unsealed"
    except IntegrityError:
        return "altered"
    except SealError:
        return "unreadable"
    return ""


def has_seal_keys() -> bool:
    """Return whether this site has keys of seals, or one that cannot be used."""
    try:
        return get_seal_keys() is not None
    except SealError:  # the system page says what is wrong with the key
        return True


def has_row_verification_keys() -> bool:
    """Return whether this site has keys with which stored rows can be compared, or one that cannot be used."""
    try:
        return get_seal_keys() is not None or get_decision_keys() is not None
    except SealError:  # the system page says what is wrong with the key
        return True


def get_site_decision_signing_key_id() -> str | None:
    """Return the id of the key with which this site signs decisions; None if it does not."""
    try:
        keys = get_decision_keys()
    except SealError:  # the system page says what is wrong with the key
        return None
    return None if keys is None or keys.signing is None else keys.signing_id.hex()


def _query_audit_chain_state(workspace: int) -> QuerySet[AuditChain]:
    return AuditChain.objects.filter(workspace=workspace)


def _query_unsealed_events(workspace: int) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.filter(workspace=workspace, number=None)
