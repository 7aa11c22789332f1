"""Outcomes and cost of the sessions by agent and by model, by hour and day. Days with changed sessions are recounted.

A fork is a session of its own; the tokens and the cost that it has from its original count there alone.

Counting a day reads its part of an index. Incremental sums would require the previous contribution of each session and
would delay agents or be wrong after a crash.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from operator import add
from typing import Any, Final

from django.db import transaction
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import TruncHour

from checkpoints.db.clock import read_database_time
from checkpoints.enums import CostBasis, SessionStatus
from checkpoints.formats.canonical_json import parse_json
from checkpoints.models import Checkpoint, ImportedFile, Session, Workspace
from harness_site.search import index_writer, record_models_and_divide_cost
from harness_site.search.copied_tokens_and_cost_of_forks import CopiedAmounts, load_copied_amounts_by_fork
from harness_site.search.hourly_sums_retention import delete_outdated_hourly_sums
from harness_site.search.models import SESSION_COUNTS, Fact, Kind, ModelSums, Progress, SessionSums, Trait

#: Number of days that are kept up to date. Older ones are counted again while none of their sessions is deleted.
KEPT_DAYS: Final = 180
#: Number of days that are recounted every hour, as deleted sessions leave no change behind. Older days keep what
#: was spent on sessions that retention has deleted since.
HOURLY_RECOUNTED_DAYS: Final = 14
#: A transaction that commits late has an earlier time.
_OVERLAP: Final = timedelta(seconds=30)
#: Above this number of changes, recounting all recent days is as fast.
_FULL_RECOUNT_THRESHOLD: Final = 5_000
#: Number of sessions that one statement looks up.
_CHUNK_SIZE: Final = 500
_AGENT_AMOUNTS: Final = (*SESSION_COUNTS, "cost")
_MODEL_AMOUNTS: Final = ("sessions", "tokens", "cost")
#: Hour, agent, model, and whether the amounts are those of several models.
_ModelKey = tuple[datetime, str, str, bool]
_HOUR_OF_START: Final = TruncHour("created_at", tzinfo=UTC)


def recount_changed_days_and_record_models(since: datetime | None) -> datetime:
    """Recount the days of sessions changed `since`, or the newest days and those that were never counted.

    Returns the moment from which changes are not counted yet.
    """
    now = read_database_time("default")
    for workspace in Workspace.objects.values_list("pk", flat=True):
        _record_models_of_changed_sessions(workspace, since, now)
        days = {*_find_changed_or_uncounted_days(workspace, since, now), *_find_days_without_model_sums(workspace)}
        for day in sorted(days):
            recount_session_sums_of_day(workspace, day)
    if since is None or since.hour != now.hour:
        delete_outdated_hourly_sums(now)
    Progress.objects.filter(kind=Kind.SESSION).update(sums_at=now)
    return now


def _record_models_of_changed_sessions(workspace: int, since: datetime | None, now: datetime) -> None:
    first = now - timedelta(days=KEPT_DAYS) if since is None else since - _OVERLAP
    sessions = Session.objects.filter(workspace=workspace, updated_at__gt=first)
    record_models_and_divide_cost.record_models_named_by_newest_versions(
        workspace, sessions.values_list("pk", flat=True).iterator()
    )


def _find_changed_or_uncounted_days(workspace: int, since: datetime | None, now: datetime) -> Iterable[date]:
    if since is None:
        return {*_find_recent_days_to_recount(workspace, now), *_find_uncounted_days(workspace, now)}
    if since.hour != now.hour:
        return _find_recent_days_to_recount(workspace, now)
    sessions = Session.objects.filter(workspace=workspace, updated_at__gt=since - _OVERLAP)
    start_times = list(sessions.order_by("-updated_at").values_list("created_at", flat=True)[:_FULL_RECOUNT_THRESHOLD])
    first = now.date() - timedelta(days=KEPT_DAYS - 1)
    start_times += _list_start_times_of_newly_imported_sessions(workspace, since)
    changed_days = {moment.date() for moment in start_times}
    days = {day for day in changed_days if day >= first or not _has_day_lost_counted_sessions(workspace, day)}
    if len(start_times) >= _FULL_RECOUNT_THRESHOLD:
        return days | _find_recent_days_to_recount(workspace, now)
    return days


def _has_day_lost_counted_sessions(workspace: int, day: date) -> bool:
    """Return whether a day has fewer sessions than its sums, which keep what was spent on deleted ones."""
    start = datetime.combine(day, time.min, UTC)
    sums = SessionSums.objects.filter(workspace=workspace, hourly=False, start=start)
    counted = sums.aggregate(number=Sum("sessions"))["number"] or 0
    return _query_sessions_of_day(workspace, start).count() < counted


def _find_days_without_model_sums(workspace: int) -> set[date]:
    """List the days that were counted before the index had read all messages, which tell the models."""
    if not _is_message_backlog_indexed():
        return set()
    agents, models = (rows.filter(workspace=workspace) for rows in (SessionSums.objects, ModelSums.objects))
    return _find_days_with_sums(agents) - _find_days_with_sums(models)


def _find_days_with_sums(sums: QuerySet[SessionSums] | QuerySet[ModelSums]) -> set[date]:
    starts: QuerySet[Any, datetime] = sums.filter(hourly=False).order_by().values_list("start", flat=True)
    return {start.date() for start in starts.distinct()}


def _is_message_backlog_indexed() -> bool:
    """Return whether the index has read all messages from before its beginning."""
    return Progress.objects.filter(kind=Kind.MESSAGE, older=0).exists()


def _list_start_times_of_newly_imported_sessions(workspace: int, since: datetime) -> list[datetime]:
    """List when the sessions of files that were imported since began: they carry the times of their transcripts."""
    files = ImportedFile.objects.filter(workspace=workspace, read_at__gt=since - _OVERLAP).order_by("-read_at")
    lists = files.values_list("sessions", flat=True)[:_FULL_RECOUNT_THRESHOLD]
    session_ids = sorted({session_id for listed in lists for session_id in parse_json(listed)})
    sessions = Session.objects.filter(workspace=workspace)
    return [
        moment
        for start in range(0, len(session_ids), _CHUNK_SIZE)
        for moment in sessions.filter(session_id__in=session_ids[start : start + _CHUNK_SIZE]).values_list(
            "created_at", flat=True
        )
    ]


def _find_recent_days_to_recount(workspace: int, now: datetime) -> set[date]:
    """List the recent days that have sessions, or sums of sessions that may be deleted."""
    agents, models = (rows.filter(workspace=workspace) for rows in (SessionSums.objects, ModelSums.objects))
    counted = _find_days_with_sums(agents) | _find_days_with_sums(models)
    recent = {now.date() - timedelta(days=offset) for offset in range(HOURLY_RECOUNTED_DAYS)}
    return (counted & recent) | _find_days_with_sessions(workspace, min(recent), now.date())


def _find_uncounted_days(workspace: int, now: datetime) -> set[date]:
    """List the days that have sessions and no sums, such as those of imported sessions, however old these are."""
    counted = SessionSums.objects.filter(workspace=workspace)
    return _find_days_with_sessions(workspace, date.min, now.date()) - _find_days_with_sums(counted)


def _find_days_with_sessions(workspace: int, first: date, last: date) -> set[date]:
    """List the days of a range on which sessions have started: one look into an index for each of them."""
    start_times = (
        Session.objects.filter(workspace=workspace).order_by("created_at").values_list("created_at", flat=True)
    )
    days: set[date] = set()
    while (found := start_times.filter(created_at__gte=datetime.combine(first, time.min, UTC)).first()) is not None:
        day = found.astimezone(UTC).date()
        if day > last:
            break
        days.add(day)
        first = day + timedelta(days=1)
    return days


def recount_session_sums_of_day(workspace: int, day: date) -> None:
    """Recount the hours of one day, and the day as a whole."""
    start = datetime.combine(day, time.min, UTC)
    sessions = _query_sessions_of_day(workspace, start)
    copied = load_copied_amounts_by_fork(sessions, _HOUR_OF_START)
    sums = _sum_sessions_by_hour_and_agent(sessions, copied)
    agents = [
        SessionSums(agent=agent, start=period, hourly=is_hour, **dict(zip(_AGENT_AMOUNTS, amounts, strict=True)))
        for (is_hour, period, agent), amounts in _build_hour_and_day_sums(sums, start).items()
    ]
    _replace_stored_sums(workspace, SessionSums, ("agent",), _AGENT_AMOUNTS, start, agents)
    if _is_message_backlog_indexed():
        model_sums = _sum_sessions_by_hour_agent_and_model(sessions, copied)
        models = [
            ModelSums(
                agent=agent,
                model=model,
                several=several,
                start=period,
                hourly=is_hour,
                **dict(zip(_MODEL_AMOUNTS, amounts, strict=True)),
            )
            for (is_hour, period, agent, model, several), amounts in _build_hour_and_day_sums(model_sums, start).items()
        ]
        _replace_stored_sums(workspace, ModelSums, ("agent", "model", "several"), _MODEL_AMOUNTS, start, models)


def _build_hour_and_day_sums(sums: Mapping[Any, tuple[Any, ...]], start: datetime) -> dict[Any, tuple[Any, ...]]:
    """Return sums by (is an hour, start, …), with those of the day that the hours add up to."""
    found = {(True, *key): amounts for key, amounts in sums.items()}
    for (_hour, *names), amounts in sums.items():
        key = (False, start, *names)
        found[key] = tuple(map(add, found[key], amounts)) if key in found else amounts
    return found


def _replace_stored_sums(
    workspace: int,
    model: type[SessionSums | ModelSums],
    keys: tuple[str, ...],
    amounts: tuple[str, ...],
    start: datetime,
    rows: Sequence[Any],
) -> None:
    """Store the sums of one day in place of those that there are. Unchanged rows are not written."""

    def get_key(row: Any) -> tuple[Any, ...]:
        return (row.start, row.hourly, *(getattr(row, name) for name in keys))

    def get_amounts(row: Any) -> tuple[Any, ...]:
        return tuple(getattr(row, name) for name in amounts)

    for row in rows:
        row.workspace_id = workspace
    kept = {get_key(row) for row in rows}
    with transaction.atomic():
        stored = list(
            model._default_manager.filter(
                workspace=workspace,
                hourly__in=(True, False),
                start__gte=start,
                start__lt=start + timedelta(days=1),
            )
        )
        outdated = [row.pk for row in stored if get_key(row) not in kept]
        if outdated:
            model._default_manager.filter(pk__in=outdated).delete()
        unchanged = {(get_key(row), get_amounts(row)) for row in stored}
        model._default_manager.bulk_create(
            sorted((row for row in rows if (get_key(row), get_amounts(row)) not in unchanged), key=get_key),
            update_conflicts=True,
            unique_fields=["workspace", "hourly", "start", *keys],
            update_fields=amounts,
        )


def _query_sessions_of_day(workspace: int, start: datetime) -> QuerySet[Session]:
    sessions = Session.objects.filter(workspace=workspace, has_times=True).order_by()
    return sessions.filter(created_at__gte=start, created_at__lt=start + timedelta(days=1))


def _sum_sessions_by_hour_and_agent(
    sessions: QuerySet[Session], copied: Mapping[int, CopiedAmounts]
) -> dict[tuple[datetime, str], tuple[Any, ...]]:
    # A quarantined session has no other status, as in the list that these numbers lead to.
    statuses = {
        "completed": SessionStatus.COMPLETED,
        "failed": SessionStatus.FAILED,
        "undecided": SessionStatus.NEEDS_REVIEW,
        "ready": SessionStatus.READY,
        "cancelled": SessionStatus.CANCELLED,
    }
    rows: QuerySet[Any, Any] = sessions.values("agent", hour=_HOUR_OF_START).annotate(
        sessions=Count("pk"),
        **{name: Count("pk", filter=Q(status=status, quarantined_at=None)) for name, status in statuses.items()},
        estimated=Count("pk", filter=Q(cost_basis=CostBasis.ESTIMATED)),
        unpriced=Count("pk", filter=Q(cost_basis=CostBasis.UNKNOWN)),
        tokens=Sum("total_tokens"),
        cost=Sum("budget_spent_usd"),
    )
    sums = {(row["hour"], row["agent"]): row for row in rows}
    for each in copied.values():
        if row := sums.get((each.start, each.agent)):  # none if the fork has been deleted since
            row["tokens"] -= each.tokens
            row["cost"] -= each.cost
    return {key: tuple(row[name] for name in _AGENT_AMOUNTS) for key, row in sums.items()}


def _sum_sessions_by_hour_agent_and_model(
    sessions: QuerySet[Session], copied: Mapping[int, CopiedAmounts]
) -> dict[_ModelKey, tuple[int, int, Decimal]]:
    """Count sessions, tokens and cost by hour, agent, model, and whether these are amounts of several models."""
    facts = Fact.objects.filter(session=OuterRef("pk"), trait=Trait.MODEL)
    first, last = (Subquery(facts.order_by(order).values("value")[:1]) for order in ("value", "-value"))
    totals: defaultdict[_ModelKey, tuple[int, int, Decimal]] = defaultdict(lambda: (0, 0, Decimal()))
    rows: QuerySet[Any, Any] = sessions.annotate(first=first, last=last)
    rows = rows.values("first", "last", "agent", hour=_HOUR_OF_START)
    mixed = False
    for row in rows.annotate(number=Count("pk"), tokens=Sum("total_tokens"), cost=Sum("budget_spent_usd")):
        if row["first"] == row["last"]:
            key = (row["hour"], row["agent"], row["first"] or "", False)
            totals[key] = (row["number"], row["tokens"], row["cost"])
        mixed = mixed or row["first"] != row["last"]
    for key, (tokens, cost) in _sum_copied_amounts_of_forks_of_one_model(copied).items():
        if key in totals:
            number, all_tokens, total = totals[key]
            totals[key] = (number, all_tokens - tokens, total - cost)
    undivided: dict[int, bool] = {}
    for session in _load_sessions_of_several_models(sessions) if mixed else ():
        if session["pk"] in copied:
            session["budget_spent_usd"] -= copied[session["pk"]].cost
            session["total_tokens"] -= copied[session["pk"]].tokens
        shares = list(_iterate_model_shares_of_session(session))
        undivided[session["pk"]] = any(several for _model, several, _tokens, _cost in shares)
        for model, several, tokens, cost in shares:
            key = (session["hour"], session["agent"], model, several)
            number, all_tokens, total = totals[key]
            totals[key] = (number + 1, all_tokens + tokens, total + cost)
    _record_undivided_sessions(undivided)
    return totals


def _record_undivided_sessions(undivided: Mapping[int, bool]) -> None:
    """Note for sessions of several models whether nothing divides a part of their amounts, which the list finds."""
    keys = sorted(undivided)
    for start in range(0, len(keys), _CHUNK_SIZE):
        chunk = keys[start : start + _CHUNK_SIZE]
        facts = Fact.objects.filter(session__in=chunk, trait=Trait.UNDIVIDED)
        recorded = set(facts.values_list("session_id", flat=True))
        if divided := [pk for pk in recorded if not undivided[pk]]:
            facts.filter(session__in=divided).delete()
        if new := [pk for pk in chunk if undivided[pk] and pk not in recorded]:
            _insert_undivided_facts(new)


def _insert_undivided_facts(session_pks: list[int]) -> None:
    with transaction.atomic():
        existing = index_writer.lock_and_list_existing_sources(Kind.SESSION, session_pks)
        sessions = Session.objects.filter(pk__in=existing).values_list("pk", "workspace_id")
        Fact.objects.bulk_create(
            [Fact(workspace_id=workspace, session_id=pk, trait=Trait.UNDIVIDED) for pk, workspace in sessions],
            ignore_conflicts=True,
        )


def _sum_copied_amounts_of_forks_of_one_model(
    copied: Mapping[int, CopiedAmounts],
) -> dict[_ModelKey, tuple[int, Decimal]]:
    """Sum the copied tokens and cost by the keys of `_sum_sessions_by_hour_agent_and_model`."""
    models: defaultdict[int, set[str]] = defaultdict(set)
    facts = Fact.objects.filter(session__in=copied, trait=Trait.MODEL)
    for fork, model in facts.values_list("session_id", "value"):
        models[fork].add(model)
    amounts: defaultdict[_ModelKey, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal()))
    for fork, each in copied.items():
        if len(models[fork]) <= 1:
            key = (each.start, each.agent, next(iter(models[fork]), ""), False)
            tokens, cost = amounts[key]
            amounts[key] = (tokens + each.tokens, cost + each.cost)
    return amounts


def _load_sessions_of_several_models(sessions: QuerySet[Session]) -> Iterable[Any]:
    facts: QuerySet[Any, Any] = Fact.objects.filter(session=OuterRef("pk"), trait=Trait.MODEL).order_by()
    number = Subquery(facts.values("session").annotate(number=Count("pk")).values("number"))
    newest = Checkpoint.objects.filter(session=OuterRef("pk"), version=OuterRef("latest_version"))
    rows: QuerySet[Any, Any] = sessions.annotate(models=number, usage=Subquery(newest.values("usage")))
    return (
        rows.filter(models__gt=1)
        .values("pk", "agent", "total_tokens", "budget_spent_usd", "metadata", "usage", hour=_HOUR_OF_START)
        .iterator()
    )


def _iterate_model_shares_of_session(session: Mapping[str, Any]) -> Iterable[tuple[str, bool, int, Decimal]]:
    """Divide one session of several models: model, whether it stands for several, tokens, cost.

    A rest that nothing divides has no model.
    """
    costs, cost_rest = record_models_and_divide_cost.divide_cost_by_model_and_undivided_rest(
        session["budget_spent_usd"], session["usage"], session["metadata"]
    )
    tokens, token_rest = record_models_and_divide_cost.read_stated_tokens_by_model_and_rest(
        session["total_tokens"], session["usage"]
    )
    for model in dict.fromkeys([*costs, *tokens]):
        yield model, False, tokens.get(model, 0), costs.get(model, Decimal())
    if cost_rest or token_rest or not costs:
        yield "", True, token_rest, cost_rest
