"""Single versions of a session, without their transcripts: by number, the newest, or the last until a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext as _

from checkpoints.enums import IMPORTED_RUN_HOST, CostBasis, Phase
from checkpoints.formats import money_amount_codec, parse_json
from checkpoints.formats.token_counts import TokenCounts, parse_token_counts
from checkpoints.models import Checkpoint
from checkpoints.models.run import FORK_RUN_NUMBER
from checkpoints.models.translated_enum_choices import translate_label
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.sessions import plan_steps_and_changes
from harness_site.sessions.plan_steps_and_changes import Plan
from harness_site.sessions.selectors.calls_between_versions import SavedVersion

#: Maximum number of versions to choose from.
CHOICES = 200


@dataclass(frozen=True, slots=True)
class Version:
    """One checkpoint without its transcript.

    `cost` (US dollars, None if unknown or unreadable) and `token_counts` are totals since the start of the session.
    `run_number` is None if the version was saved without a run, and `run_host` is the machine of the run.
    """

    version: int
    at: datetime
    phase: str
    run_number: int | None
    run_host: str
    segment_id: int
    length: int
    plan: Plan | None
    cost: Decimal | None
    token_counts: TokenCounts
    run_started_at: datetime | None = None

    @property
    def happened_before_its_run(self) -> bool:
        """Whether a framework's transcript had it before the run that saved it started."""
        if self.run_started_at is None or self.is_copied or self.is_imported:
            return False
        return self.at < self.run_started_at

    @property
    def tokens(self) -> int | None:
        """All tokens since the start of the session; None if unknown or unreadable."""
        return self.token_counts.total

    @property
    def number_and_save_time(self) -> SavedVersion:
        return SavedVersion(self.version, self.at)

    @property
    def phase_label(self) -> str:
        """The phase in which the version was saved; one that a fork has copied was saved when the fork was created."""
        if self.is_copied:
            return _("Forked")
        return self.stored_phase_label

    @property
    def stored_phase_label(self) -> str:
        """The phase from which a run continues, which a fork has copied with its first version."""
        return str(translate_label(Phase(self.phase))) if self.phase in Phase.values else self.phase

    @property
    def is_copied(self) -> bool:
        """Whether a fork has copied this version from its original."""
        return self.run_number == FORK_RUN_NUMBER and not self.is_imported

    @property
    def is_imported(self) -> bool:
        return self.run_host == IMPORTED_RUN_HOST


def load_version(session_pk: int, version: int) -> Version | None:
    row = query_versions(session_pk).filter(version=version).first()
    return build_verified_version(row) if row else None


def load_two_versions_with_payloads(
    first: tuple[int, int], second: tuple[int, int]
) -> tuple[tuple[Version, str | None], tuple[Version, str | None]] | None:
    """Load two versions, each named by session and number, with the additional data saved with them as canonical JSON
    text.

    None if one of them does not exist. Raises `IntegrityError`.
    """
    (first_session, first_version), (second_session, second_version) = first, second
    rows = _select_versions_with_facts().filter(
        Q(session=first_session, version=first_version) | Q(session=second_session, version=second_version)
    )
    found = {(row.session_id, row.version): (build_verified_version(row), row.payload) for row in rows}
    return (found[first], found[second]) if first in found and second in found else None


def build_verified_version(row: Checkpoint) -> Version:
    """Build a version. Raises `IntegrityError` for one that was altered."""
    if get_seal_keys() is not None:
        row_seals.verify_row(row)
    return _build_version(row)


def query_versions(session: int, *, upto: int | None = None) -> QuerySet[Checkpoint]:
    """Query versions, with their payloads only if a seal, which covers them, has to be verified."""
    has_seals = get_seal_keys() is not None
    checkpoints = _select_versions_with_facts() if has_seals else _select_versions_with_facts_without_payloads()
    return checkpoints.filter(session=session, **({} if upto is None else {"version__lte": upto}))


@cache
def _select_versions_with_facts_without_payloads() -> QuerySet[Checkpoint]:
    return _select_versions_with_facts().defer("payload")


@cache
def _select_versions_with_facts() -> QuerySet[Checkpoint]:
    # Annotations, because the complete rows of session and run have several times as many columns as the version.
    return Checkpoint.objects.annotate(
        run_number=F("run__number"),
        run_host=F("run__host"),
        run_started_at=F("run__started_at"),
        cost_basis=F("session__cost_basis"),
    )


def load_newest_version(session_pk: int, *, upto: int | None = None) -> Version | None:
    """Load the newest version, or the newest one up to the version `upto`. Raises `IntegrityError`."""
    row = next(iter(_query_newest_version(session_pk, upto=upto)), None)
    return build_verified_version(row) if row else None


def find_newest_version_number_up_to(session_pk: int, version: int) -> int | None:
    """Return the number of the newest version up to this one; None if there is none."""
    numbers = _select_version_numbers_newest_first().filter(session=session_pk, version__lte=version)
    return next(iter(numbers[:1]), None)


def _query_newest_version(session: int, *, upto: int | None = None) -> QuerySet[Checkpoint]:
    return query_versions(session, upto=upto).order_by("-version")[:1]


def find_newest_version_number_until(session_pk: int, time: datetime | None) -> int | None:
    """Return the number of the newest version that was saved until a time, or of the newest one; None without one."""
    checkpoints = Checkpoint.objects.filter(session=session_pk)
    saved = checkpoints if time is None else checkpoints.filter(created_at__lte=time)
    return saved.order_by("-version").values_list("version", flat=True).first()


def find_last_version_within_shared_messages(session_pk: int, version: Version, shared: int) -> SavedVersion | None:
    """Return the last version up to `version` that has at most `shared` messages; None without one."""
    checkpoints = Checkpoint.objects.filter(session=session_pk, version__lte=version.version, length__lte=shared)
    row = checkpoints.order_by("-version").values_list("version", "created_at").first()
    return None if row is None else SavedVersion(*row)


def list_version_choices(session_pk: int, *, included: int) -> tuple[int, ...]:
    """List version numbers to choose from, newest first, always with the version `included`."""
    newest = list(_query_newest_version_numbers(session_pk))
    return tuple(newest if included in newest else [*newest, included])


def _query_newest_version_numbers(session: int) -> QuerySet[Checkpoint, int]:
    return _select_version_numbers_newest_first().filter(session=session)[:CHOICES]


@cache
def _select_version_numbers_newest_first() -> QuerySet[Checkpoint, int]:
    return Checkpoint.objects.order_by("-version").values_list("version", flat=True)


def _build_version(row: Checkpoint) -> Version:
    return Version(
        version=row.version,
        at=row.created_at,
        phase=row.phase,
        run_number=row.run_number,  # type: ignore[attr-defined]
        run_host=row.run_host or "",  # type: ignore[attr-defined]
        segment_id=row.segment_id,
        length=row.length,
        plan=plan_steps_and_changes.parse_checkpoint_plan(row.plan),
        cost=None if row.cost_basis == CostBasis.UNKNOWN else parse_cost(row.budget_spent_usd),  # type: ignore[attr-defined]
        token_counts=parse_stored_token_counts(row.usage),
        run_started_at=row.run_started_at,  # type: ignore[attr-defined]
    )


def parse_cost(stored: str) -> Decimal | None:
    try:
        return money_amount_codec.round_amount_to_millionth(stored)
    except (ValueError, InvalidOperation):
        return None


def parse_total_tokens(stored: str | None) -> int | None:
    """Return all tokens of a stored usage object, those of the cache included; None if it states none."""
    return parse_stored_token_counts(stored).total


def parse_stored_token_counts(stored: str | None) -> TokenCounts:
    try:
        usage: Any = parse_json(stored) if stored else None
    except (ValueError, RecursionError):
        return TokenCounts()
    return parse_token_counts(usage)
