"""Review queue over all sessions, and the list of decided calls."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from django.core.exceptions import BadRequest
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from checkpoints.db import clock
from checkpoints.enums import CallStatus, Role
from checkpoints.models import Session, ToolCall
from harness_site.accounts.map_decisions_to_eligible_votes import build_eligible_vote_mapper
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.permissions import (
    MemberRequest,
    list_active_usernames_with_role_or_higher,
    require_member_with_role,
)
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.number_parameters import parse_whole_number_or_none
from harness_site.core.unreadable_rows_and_quarantine import (
    UnreadableRecord,
    call_or_use_fallback,
    convert_rows_or_mark_unreadable,
    filter_out_unreadable_records,
)
from harness_site.review import (
    find_decisions_with_visible_words,
    find_waiting_calls_by_words,
    load_claims_and_record_presence,
)
from harness_site.review.bulk_decision_storage_and_withdrawal import load_keys_of_bulk_decisions
from harness_site.review.decided_rows_and_batches import (
    DecidedRow,
    are_neighbours_in_one_minute,
    build_decided_row,
    find_decision_or_withdrawn_decision,
    find_end_of_page_of_joined_rows,
    group_equal_decisions,
)
from harness_site.review.find_rows_with_visible_words import MOST_FOUND, FoundRows
from harness_site.review.load_claims_and_record_presence import NOBODY
from harness_site.review.mark_calls_of_lost_runs_as_interrupted import mark_calls_of_lost_runs_as_interrupted
from harness_site.review.pending_call_rows import PendingCallRow, PendingRowBuilder, UnverifiedCallRow
from harness_site.review.queue_filters import (
    PERSON_PREFIX,
    STATUSES_OF,
    TAB_OF,
    TABS,
    QueueFilters,
    parse_queue_filters,
    translate_choices,
)
from harness_site.review.selectors import decided_calls, outage_groups, pending_calls
from harness_site.review.selectors.comment_counts_and_last_authors import count_comments_and_find_mentions_of_calls
from harness_site.review.selectors.copied_calls_of_forks import load_originals_of_copies
from harness_site.review.selectors.decided_calls import DecisionFilters, DecisionsAboutCall
from harness_site.review.selectors.edits_and_withdrawals_of_pending_calls import (
    UNCHANGED,
    load_changes_of_waiting_calls,
)
from harness_site.review.selectors.next_attempts_of_rerun_calls import load_statuses_of_next_attempts
from harness_site.review.selectors.outage_groups import Outage
from harness_site.review.selectors.pending_call_counts_by_decider import (
    CallsByDecider,
    count_calls_for_reader_and_for_others,
    list_first_due_calls_of_counted,
    list_keys_of_longest_waiting_calls,
    list_statuses_of_calls_handed_to_reader,
)
from harness_site.review.selectors.pending_calls import BoundedCount, CallFilters, DueCalls
from harness_site.review.selectors.queue_order import QueueSort
from harness_site.review.selectors.same_approval_call_groups import list_groups_of_calls_awaiting_same_approval
from harness_site.review.selectors.usual_amounts import load_usual_amounts
from harness_site.review.verification_requests_and_hook_answers import load_answered_requests
from harness_site.review.why_reader_cannot_decide import explain_why_reader_cannot_decide
from harness_site.sessions.selectors import multi_person_decisions

#: Number of calls from which a page of decisions ends before it has all its rows, or within a batch.
_MAX_DECIDED_ROWS: Final = 300
#: Number of calls that are loaded at once while batches leave room on a page of decisions.
_FURTHER_DECIDED_CALLS: Final = 60


@require_GET
@require_member_with_role(Role.AUDITOR)
def interrupt_lost_calls_and_show_queue(request: MemberRequest) -> HttpResponse:
    mark_calls_of_lost_runs_as_interrupted(request.membership.workspace)
    query_filters = parse_queue_filters(request.GET, request.membership.user.get_username())
    found = _find_calls_with_words(request, query_filters.words) if query_filters.words else None
    filters = query_filters.convert_to_call_filters(request.membership, found)
    waiting = count_calls_for_reader_and_for_others(request.membership)
    counts = _count_calls_by_tab(request, filters, waiting)
    due = _list_first_due_calls_and_count_urgent(request, filters, waiting) if counts["all"] else DueCalls()
    selected = request.GET.get("tab", "")
    handed = list_statuses_of_calls_handed_to_reader(waiting, request.membership, clock.now())
    if handed is None:
        handed = load_claims_and_record_presence.load_statuses_of_undecided_calls_handed_to(request.membership)
    if filters and handed:
        handed = pending_calls.drop_calls_that_filters_hide(request.membership.workspace, handed, filters)
    tab = selected if selected in TABS else TABS[0]
    found_decisions = _find_decisions_with_words(request, filters, query_filters)
    wanted = (
        query_filters.decided if found_decisions is None else replace(query_filters.decided, found=found_decisions.pks)
    )
    tab_context = (
        _load_decided_context(request, filters, query_filters, wanted)
        if tab == "decided"
        else _load_pending_context(request, tab, filters, query_filters, counts, due, handed, waiting)
    )
    decided = tab_context.get("matching_calls")
    if decided is None:
        decided = decided_calls.count_decided_calls(
            request.membership.workspace, filters, wanted, limit=pending_calls.COUNT_LIMIT
        )
    context = {
        **tab_context,
        **translate_choices(get_language()),
        "tab": tab,
        "wanted": query_filters,
        "active_filters": query_filters.list_active_filters(tab, request.GET),
        "counts": counts,
        "decided": decided,
        "urgent": due.urgent_count,
        "found": counts["all"],
        "is_search_incomplete": found is not None and not found.is_complete,
        "search_limits": {"searched": find_waiting_calls_by_words.SEARCHED_CALLS, "found": MOST_FOUND},
        "is_search_of_decisions_incomplete": found_decisions is not None and not found_decisions.is_complete,
        "decision_search_limits": {
            "searched": find_decisions_with_visible_words.SEARCHED_DECISIONS,
            "found": MOST_FOUND,
        },
        "pending": waiting,
        "pending_of_tab": _get_calls_of_tab_by_decider(tab, waiting),
        "shown": counts.get(tab),
        "waiting_calls": waiting.own,
        "handed": len(handed),
        "is_filtered": query_filters.has_filters,
        "here": request.GET.urlencode(),
        "refresh_url": _build_refresh_url(request, tab, is_empty=tab_context["is_empty"]),
    }
    return render(request, "review/queue.html", context)


@require_GET
@require_member_with_role(Role.AUDITOR)
def show_queue_count(request: MemberRequest) -> HttpResponse:
    """Render the number beside `Review` for open pages."""
    return render(
        request, "parts/waiting.html", {"waiting": count_calls_for_reader_and_for_others(request.membership).own}
    )


def _find_calls_with_words(request: MemberRequest, words: str) -> FoundRows:
    """Find the waiting calls with these words; none if a row cannot be read."""
    return call_or_use_fallback(
        "The search of the waiting calls",
        lambda: find_waiting_calls_by_words.find_waiting_calls_with_words(request.membership.workspace, words),
        FoundRows(is_complete=False),
    )


def _find_decisions_with_words(
    request: MemberRequest, filters: CallFilters, query_filters: QueueFilters
) -> FoundRows | None:
    """Find the decisions with the words of the search; none if a row cannot be read, and None without a search."""
    if not query_filters.words:
        return None
    return call_or_use_fallback(
        "The search of the decisions",
        lambda: find_decisions_with_visible_words.find_decisions_with_words(
            request.membership.workspace, query_filters.words, filters, query_filters.decided
        ),
        FoundRows(is_complete=False),
    )


def _count_calls_by_tab(
    request: MemberRequest, filters: CallFilters, waiting: CallsByDecider
) -> dict[str, BoundedCount]:
    """Count the calls of each tab; without filters, and if there are few, they are counted already."""
    if waiting.numbers_by_status is not None and not filters:
        counts = {status: BoundedCount(waiting.numbers_by_status.get(status, 0)) for status in STATUSES_OF["all"]}
    else:
        counts = {
            status: BoundedCount(pending_calls.COUNT_LIMIT, more=True)
            if status == waiting.status_of_all_counted and not filters
            else pending_calls.count_pending_calls(request.membership.workspace, filters, status=status)
            for status in STATUSES_OF["all"]
        }
    return {
        name: sum((counts[status] for status in statuses), BoundedCount(0)) for name, statuses in STATUSES_OF.items()
    }


def _get_calls_of_tab_by_decider(tab: str, waiting: CallsByDecider) -> CallsByDecider | None:
    """Return who may decide the calls of a tab; None if more calls wait than were counted."""
    statuses = STATUSES_OF.get(tab, ())
    return waiting.by_status.get(statuses[0]) if len(statuses) == 1 else waiting


def _list_first_due_calls_and_count_urgent(
    request: MemberRequest, filters: CallFilters, waiting: CallsByDecider
) -> DueCalls:
    """List the calls that are due within a day, and count the urgent ones.

    There are none if the list filters deadlines. Approvers may not decide overdue calls, so those are left out for
    them.
    """
    if filters.limit is not None:
        return DueCalls()
    workspace, with_overdue = request.membership.workspace, request.membership.role != Role.APPROVER
    if waiting.all_calls is None or filters:
        return pending_calls.list_first_due_calls_and_count_urgent(workspace, filters, with_overdue=with_overdue)
    return list_first_due_calls_of_counted(waiting, clock.now(), with_overdue=with_overdue)


def _build_refresh_url(request: MemberRequest, tab: str, *, is_empty: bool) -> str:
    """Build the URL that the open page fetches again: a list that is read is not exchanged for another tab."""
    if is_empty:
        return request.get_full_path()
    query = request.GET.copy()
    query["tab"] = tab
    return f"?{query.urlencode()}"


@dataclass(frozen=True, slots=True)
class _PendingPage:
    """Calls of one page of a tab with their sessions.

    `handed` and `due` come before the rows of the outages, whose first calls are in `outages`; `others` come after
    them. `next_count` is the number of calls on the next page, which starts after `last_pk`. The `has_` flags say what
    the first page of the list begins with, whichever page this is.
    """

    handed: Sequence[ToolCall | UnreadableRecord]
    due: Sequence[ToolCall | UnreadableRecord]
    outages: Mapping[Outage, Sequence[ToolCall | UnreadableRecord]]
    others: Sequence[ToolCall | UnreadableRecord]
    last_pk: int | None
    next_count: int
    has_handed_first: bool
    has_due_first: bool
    has_outages_first: bool

    @property
    def calls_shown_as_rows(self) -> list[ToolCall | UnreadableRecord]:
        return [*self.handed, *self.due, *self.others]

    @property
    def readable_calls(self) -> list[ToolCall]:
        return filter_out_unreadable_records([*self.calls_shown_as_rows, *chain.from_iterable(self.outages.values())])


def _load_pending_context(
    request: MemberRequest,
    tab: str,
    filters: CallFilters,
    query_filters: QueueFilters,
    counts: Mapping[str, BoundedCount],
    due: DueCalls,
    handed: Mapping[int, CallStatus],
    waiting: CallsByDecider,
) -> dict[str, Any]:
    """Build the rows of the calls, and one row for each outage; filtered lists have a row for each call."""
    workspace = request.membership.workspace
    outages = outage_groups.list_open_outages(workspace) if tab != "awaiting" else []
    statuses = [status for status in STATUSES_OF[tab] if counts[TAB_OF[status]]]
    page = _load_pending_page(
        request, statuses, filters, query_filters, outages, handed, due.list_first_pks(statuses), waiting
    )
    calls = page.calls_shown_as_rows
    secrets = _mark_excerpts_shown_and_load_secrets(request, {call.session_id for call in page.readable_calls})
    builder = PendingRowBuilder(request.GET, secrets, load_usual_amounts(workspace.pk, page.readable_calls))
    rows = _build_pending_rows(request, calls, outages, builder)
    agent_counts = outage_groups.count_agents_of_large_outages(page.outages)
    may_decide_together = (
        tab != "interrupted" and counts["awaiting"].number > 1 and request.membership.has_role(Role.APPROVER)
    )
    return {
        "has_handed_first": page.has_handed_first,
        "has_due_first": page.has_due_first,
        "has_outages_first": page.has_outages_first,
        **_group_rows_by_who_decides(rows, len(page.handed) + len(page.due), waiting),
        "groups": [
            builder.build_outage_group_row(outage, calls, agent_counts.get(outage))
            for outage, calls in page.outages.items()
        ],
        "is_group_of_page_alone": bool(page.next_count) and waiting.numbers_by_status is None,
        "rows": rows,
        "secrets": secrets,
        "more": _build_next_page_url(request.GET, page.last_pk if page.next_count else None, tab=tab),
        "following": page.next_count,
        "is_empty": not calls and not page.outages,
        "first_time": tab in {"all", "interrupted"}
        and not calls
        and not outages
        and not Session.objects.filter(workspace=workspace).exists(),
        "same_approvals": list_groups_of_calls_awaiting_same_approval(
            workspace, request.GET, filters, except_calls=waiting.pks_of_others | waiting.pks_answered
        )
        if may_decide_together
        else [],
        **_build_tool_and_agent_suggestions_context((call.tool, call.session.agent) for call in page.readable_calls),
    }


def _group_rows_by_who_decides(
    rows: Sequence[PendingCallRow | UnverifiedCallRow | UnreadableRecord], first_count: int, waiting: CallsByDecider
) -> dict[str, Any]:
    """Group the rows: for the reader, of which the first ones are listed first, waiting for others, and handed over."""
    are_all_counted = waiting.numbers_by_status is not None
    waiting_for_others = [
        row
        for row in rows
        if isinstance(row, PendingCallRow)
        and row.waits_for_others
        and (row.pk in waiting.pks_of_others or not are_all_counted)
    ]
    handed_over = [row for row in rows if row.pk in waiting.handed_over and row not in waiting_for_others]
    of_others = [*waiting_for_others, *handed_over]
    return {
        "first_rows": [row for row in rows[:first_count] if row not in of_others],
        "other_rows": [row for row in rows[first_count:] if row not in of_others],
        "rows_waiting_for_others": waiting_for_others,
        "rows_handed_over": handed_over,
    }


def _load_pending_page(
    request: MemberRequest,
    statuses: Collection[CallStatus],
    filters: CallFilters,
    query_filters: QueueFilters,
    outages: Sequence[Outage],
    handed: Mapping[int, CallStatus],
    due_pks: Sequence[int],
    waiting: CallsByDecider,
) -> _PendingPage:
    """Load the calls in these statuses of a page.

    In the list of the longest waiting, the calls that were handed to the reader come first, unless it is filtered, then
    those that are due within a day; those of an outage stay in its row. The calls of `waiting` that the reader cannot
    decide now come after the last page of the others.
    """
    after_key = _parse_page_start_key(request.GET)
    grouped = [] if query_filters.has_filters else outages[: outage_groups.MOST_GROUPS]
    in_groups = {pk for outage in grouped for pk in outage.call_pks}
    last = {pk for pk in waiting.pks_of_others if pk not in in_groups}
    handed_first, due_first = _choose_handed_and_due_pks_to_list_first(
        statuses, query_filters, handed, due_pks, in_groups | last
    )
    begins_with = {
        "has_handed_first": bool(handed_first),
        "has_due_first": bool(due_first),
        "has_outages_first": bool(grouped),
    }
    is_in_first_order = query_filters.sort == QueueSort.OLDEST and after_key is None and not filters
    page_keys, next_count = pending_calls.list_keys_of_pending_page_and_count_next(
        request.membership.workspace,
        statuses,
        filters,
        sort=query_filters.sort,
        after=after_key,
        excluded_keys={*in_groups, *handed_first, *due_first},
        keys_at_end=last,
        all_in_order=list_keys_of_longest_waiting_calls(waiting, statuses) if is_in_first_order else None,
    )
    if after_key:  # what comes first is on the first page alone
        handed_first, due_first, grouped = [], [], []
    first_of_outages = chain.from_iterable(outage.first_call_pks for outage in grouped)
    loaded = pending_calls.load_calls_with_sessions([*handed_first, *due_first, *page_keys, *first_of_outages])

    def list_loaded(pks: Iterable[int]) -> list[ToolCall | UnreadableRecord]:
        return [loaded[pk] for pk in pks if pk in loaded]

    return _PendingPage(
        handed=list_loaded(handed_first),
        due=list_loaded(due_first),
        outages={outage: list_loaded(outage.first_call_pks) for outage in grouped},
        others=list_loaded(page_keys),
        last_pk=page_keys[-1] if page_keys else None,
        next_count=next_count,
        **begins_with,
    )


def _choose_handed_and_due_pks_to_list_first(
    statuses: Collection[CallStatus],
    query_filters: QueueFilters,
    handed: Mapping[int, CallStatus],
    due_pks: Sequence[int],
    excluded: Collection[int],
) -> tuple[list[int], list[int]]:
    """Choose the keys of the calls that come first because they were handed to the reader, and because they are due.

    The `excluded` calls, in the row of an outage or after all others, are left out.
    """
    if query_filters.sort != QueueSort.OLDEST:
        return [], []
    is_handed_first = not query_filters.has_filters
    handed_first = [
        pk for pk, status in handed.items() if is_handed_first and status in statuses and pk not in excluded
    ]
    return handed_first, [pk for pk in due_pks if pk not in excluded and pk not in handed_first]


def _build_decided_rows(decided: Sequence[DecisionsAboutCall]) -> list[DecidedRow]:
    bulk_pks = load_keys_of_bulk_decisions([find_decision_or_withdrawn_decision(each).pk for each in decided])
    requests = load_answered_requests([each.matching_decision for each in decided])
    next_statuses = load_statuses_of_next_attempts([each.matching_decision.tool_call for each in decided])
    return [build_decided_row(each, bulk_pks, requests, next_statuses) for each in decided]


def _load_rows_of_decided_page(
    load_page: Callable[..., tuple[list[DecisionsAboutCall], int | None, int]],
    before: int | None,
    *,
    are_batches_joined: bool,
) -> tuple[list[DecisionsAboutCall], list[DecidedRow], int | None, int]:
    """Load the calls of a page of the list.

    With `are_batches_joined`, a batch of equal decisions counts as the one row that it is, and none is cut.

    Returns:
        The decisions about each call, their rows before they are joined, the key to continue before (None at the end),
        and the number of calls on the next page, up to `PAGE`.
    """
    decided, next_key, following = load_page(before=before)
    rows = _build_decided_rows(decided)
    if not are_batches_joined:
        return decided, rows, next_key, following
    end = find_end_of_page_of_joined_rows(rows, pending_calls.PAGE)
    while end is None and next_key is not None and len(rows) < _MAX_DECIDED_ROWS:
        more, next_key, following = load_page(before=next_key, limit=_FURTHER_DECIDED_CALLS)
        decided, rows = [*decided, *more], [*rows, *_build_decided_rows(more)]
        end = find_end_of_page_of_joined_rows(rows, pending_calls.PAGE)
    if end is None:
        return decided, rows, next_key, min(following, pending_calls.PAGE)
    return decided[:end], rows[:end], rows[end - 1].pk, min(len(rows) - end + following, pending_calls.PAGE)


def _load_decided_context(
    request: MemberRequest, filters: CallFilters, query_filters: QueueFilters, wanted: DecisionFilters
) -> dict[str, Any]:
    workspace = request.membership.workspace
    is_filtered = query_filters.is_decision_list_filtered
    decided, rows, next_key, following = _load_rows_of_decided_page(
        partial(decided_calls.load_page_of_decisions_by_call, workspace, filters, wanted),
        _parse_page_start_key(request.GET),
        are_batches_joined=not is_filtered,
    )
    counted = (workspace, filters, wanted)
    calls = [each.matching_decision.tool_call for each in decided]
    shown_rows = rows if is_filtered else group_equal_decisions(rows)
    return {
        "matching_calls": decided_calls.count_decided_calls(*counted) if is_filtered else None,
        "matching_decisions": decided_calls.count_decisions(*counted) if is_filtered else None,
        "decisions": rows,
        "person_prefix": PERSON_PREFIX,
        "decided_rows": shown_rows,
        "have_times_seconds": are_neighbours_in_one_minute(shown_rows),
        "secrets": _mark_excerpts_shown_and_load_secrets(request, {call.session_id for call in calls}),
        "more": _build_next_page_url(request.GET, next_key),
        "following": following,
        "is_empty": not decided,
        "deciders": query_filters.list_decider_choices(
            list_active_usernames_with_role_or_higher(workspace, Role.APPROVER)
        ),
        **_build_tool_and_agent_suggestions_context(
            (each.matching_decision.tool_call.tool, each.matching_decision.session.agent) for each in decided
        ),
    }


def _build_tool_and_agent_suggestions_context(tools_and_agents: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """List the tools and agents of a page, as suggestions for its filters."""
    pairs = set(tools_and_agents)
    agents = {agent for _tool, agent in pairs if agent}
    return {"tools": sorted({tool for tool, _agent in pairs}, key=str), "agents": sorted(agents, key=str)}


def _mark_excerpts_shown_and_load_secrets(request: MemberRequest, sessions: set[int]) -> dict[int, frozenset[str]]:
    """Load the secrets of these sessions, of which the response shows excerpts."""
    mark_excerpts_shown_in_response(request, "review queue", sessions)
    return mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(sessions)


def _build_pending_rows(
    request: MemberRequest,
    calls: Sequence[ToolCall | UnreadableRecord],
    outages: Sequence[Outage],
    builder: PendingRowBuilder,
) -> list[PendingCallRow | UnverifiedCallRow | UnreadableRecord]:
    now = clock.now()
    readable = filter_out_unreadable_records(calls)
    outages_by_call = outage_groups.map_calls_to_outages(readable, outages)
    electorate = build_eligible_vote_mapper(request.membership.workspace)
    agreements_by_call = multi_person_decisions.load_incomplete_agreements_of_calls(readable, electorate)
    silent = pending_calls.load_keys_of_calls_whose_hook_could_not_tell(readable)
    people = load_claims_and_record_presence.load_claims_and_presence_of_calls(
        [call.pk for call in calls], request.membership
    )
    comments = count_comments_and_find_mentions_of_calls(
        (call.pk for call in readable), request.membership.user.get_username()
    )
    changes, originals = load_changes_of_waiting_calls(readable, electorate), load_originals_of_copies(readable)

    def build_row(call: ToolCall) -> PendingCallRow | UnverifiedCallRow:
        outage = outages_by_call.get(call.pk)
        group = None if outage is None else builder.build_outage_group_row(outage)
        agreements, company = agreements_by_call.get(call.pk, ()), people.get(call.pk, NOBODY)
        return builder.check_integrity_and_build_row(
            call,
            agreements,
            company,
            group,
            now=now,
            hook_could_not_tell=call.pk in silent,
            changes=changes.get(call.pk, UNCHANGED),
            original=originals.get(call.pk),
            waits_for_others=explain_why_reader_cannot_decide(call, agreements, request.membership),
            comments=comments.get(call.pk),
        )

    return convert_rows_or_mark_unreadable(calls, build_row, "call", attrgetter("session_id"))


def _parse_page_start_key(query: QueryDict) -> int | None:
    token = query.get("after", "")
    key = parse_whole_number_or_none(token)
    if token and key is None:
        raise BadRequest(_("The page number in the address is not a number."))
    return key


def _build_next_page_url(current_query: QueryDict, after: int | None, **parameters: str) -> str:
    """Build the URL of this page with another start; empty if there is no next page."""
    if after is None:
        return ""
    query = current_query.copy()
    for name, value in {"after": str(after), **parameters}.items():
        query[name] = value
    return f"?{query.urlencode()}"
