"""Version list of a session, and comparison of two versions of one or two sessions."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from harness_site.accounts.permissions import MemberRequest
from harness_site.core.masking import masker
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.core.rendering.text_shortening import shorten_text_in_middle, shorten_uuids
from harness_site.core.word_diff import StepBudget
from harness_site.sessions.compare import compare_versions
from harness_site.sessions.compare.call_pairs import pair_calls_of_two_sessions
from harness_site.sessions.compare.calls_of_compared_messages import ComparedCalls
from harness_site.sessions.compare.session_choices import load_session_choices
from harness_site.sessions.money_and_count_formatting import count_common_decimal_places
from harness_site.sessions.selectors import (
    prompt_outline_and_version_summaries,
    session_rows,
    version_list,
    version_lookup,
)
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.version_list import VersionRow
from harness_site.sessions.session_environment import read_session_environment
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    build_missing_version_error,
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.timeline import list_timeline_items
from harness_site.sessions.timeline.selectors import turn_contents
from harness_site.sessions.timeline.selectors.turn_contents import MessageRange, TurnContents

#: Maximum number of expanded ranges of unchanged messages.
_OPEN = 20
#: Number of characters of the name of a session that its narrowest place on the page has room for.
_SHORTEST_NAME = 18
#: Largest number of messages that a version has added and are read to name their tools.
_MAX_MESSAGES_OF_VERSION: Final = 20
#: Maximum steps of the comparisons of the parts of all edited messages.
_PARTS_STEPS = 20_000_000


@require_GET
@require_member_and_handle_page_not_found
def list_versions(request: MemberRequest, pk: int) -> HttpResponse:
    """List the versions. `a` and `b` are those selected on another page of the list, which keep their selection."""
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    before = parse_number_parameter_or_none(request, "before")
    page = version_list.load_version_page(pk, before=before, may_have_copied_calls=head.may_have_copied_calls)
    texts = prompt_outline_and_version_summaries.load_summary_of_each_version(head.stored, page.rows)
    texts |= _describe_messages_of_versions(row for row in page.rows if row.version.version not in texts)
    shown = [row.version.version for row in page.rows]
    selected = {
        "a": _parse_selected_version(request, "a", head) or next(iter(shown[1:] or shown), None),
        "b": _parse_selected_version(request, "b", head) or next(iter(shown), None),
    }
    elsewhere = sorted({number for number in selected.values() if number is not None} - set(shown), reverse=True)
    context = {
        "head": head,
        "tab": "versions",
        "page": page,
        "rows": [(row, texts.get(row.version.version)) for row in page.rows],
        "cost_decimal_places": count_common_decimal_places(
            cost for row in page.rows for cost in (row.version.cost, row.cost_delta)
        ),
        "has_milliseconds": _have_equal_seconds([row.version.at for row in page.rows]),
        "has_versions_outside_of_runs": any(row.version.run_number is None for row in page.rows),
        "framework": read_session_environment(head.stored).framework,
        "first_page": before is None,
        "selected": selected,
        "newer_selected": [number for number in elsewhere if before is not None and number >= before],
        "older_selected": [number for number in elsewhere if before is None or number < before],
    }
    return render(request, "sessions/versions.html", context)


def _describe_messages_of_versions(rows: Iterable[VersionRow]) -> dict[int, str]:
    """Describe by version the results of tools or the answers that it has added, in at most one query."""
    ranges = [
        MessageRange(row.version.version, row.version.segment_id, row.version.length - row.added, row.version.length)
        for row in rows
        if 0 < row.added <= _MAX_MESSAGES_OF_VERSION
    ]
    contents = turn_contents.load_turn_contents(ranges)
    texts = {each.version: _describe_results_or_answers(contents[each.version], each) for each in ranges}
    return {version: text for version, text in texts.items() if text}


def _describe_results_or_answers(contents: TurnContents, added: MessageRange) -> str:
    if contents.tools:
        texts = list_timeline_items.get_item_texts_in_current_language()
        tools = list_timeline_items.format_names_with_counts(contents.tools, texts)
        return ngettext("Result of %(tools)s", "Results of %(tools)s", len(contents.tools)) % {"tools": tools}
    if contents.answers == added.upto - added.first:
        return ngettext("Answer of the model", "Answers of the model", contents.answers)
    return ""


def _parse_selected_version(request: MemberRequest, name: str, head: SessionHead) -> int | None:
    """Return the version that is selected in the list; None if it cannot be one of this session."""
    number = parse_number_parameter_or_none(request, name)
    return number if number is not None and 0 < number <= head.row.version else None


@require_GET
@require_member_and_handle_page_not_found
def show_version_comparison(request: MemberRequest, pk: int) -> HttpResponse:
    """Compare two versions.

    Query parameter `a` is a version of this session and `b` one of it or of the session whose key is `with`. Without
    versions, the newest is compared with the one before it, or the newest versions of both sessions. With `find`, the
    page offers the sessions that have these words in their title, id or agent; a complete id leads to its session.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    other = _get_other_session_head_or_404(request, head)
    typed = request.GET.get("find")
    if typed and not request.htmx and (address := _build_comparison_url_or_none(request, typed.strip())):
        return redirect(address)
    choices = load_session_choices(
        request.membership.workspace_id, typed or "", compared_with=head.row, without={head.row.pk, other.row.pk}
    )
    offer = {
        "choices": choices,
        "head": head,
        "other": other,
        "from_version": parse_number_parameter_or_none(request, "a"),
    }
    if request.htmx.target == "session-choices":
        return render(request, "sessions/parts/session_choices.html", offer)
    numbers_a = numbers_b = version_lookup.list_version_choices(pk, included=head.row.version)
    if other is not head:
        numbers_b = version_lookup.list_version_choices(other.row.pk, included=other.row.version)
    a, b = _parse_optional_version_or_404(request, "a", head), _parse_optional_version_or_404(request, "b", other)
    if b is None:
        b = next((found for found in numbers_b if found != a or other is not head), None)
    if a is None:
        a = next((found for found in numbers_a if other is not head or (b is not None and found < b)), b)
    open_positions = _parse_open_folds(request)
    found = (
        compare_versions.compare_two_versions(pk, a, b, other=other.row.pk, opened=open_positions)
        if a is not None and b is not None
        else None
    )
    compared_calls = None if found is None else ComparedCalls(found)
    if compared_calls is not None:
        masker.mask_values_until_response(masker.collect_secret_values(*compared_calls.list_arguments()))
    context = offer | {
        "two": other is not head,
        "waiting_fork": _is_fork_without_process(other, of=head) or _is_fork_without_process(head, of=other),
        "names": _choose_distinct_session_names(head, other),
        "tab": "versions",
        "found": found,
        "compared_calls": compared_calls,
        "call_pairs": () if found is None or other is head else pair_calls_of_two_sessions(found.calls_a, found.calls),
        "opened": open_positions,
        "parts_budget": StepBudget(_PARTS_STEPS),
        "numbers_a": numbers_a,
        "numbers_b": numbers_b,
        "is_choosing": typed is not None,
    }
    return render(request, "sessions/compare.html", context)


def _is_fork_without_process(fork: SessionHead, *, of: SessionHead) -> bool:
    """Return whether `fork` is a fork of the other session that no process has continued."""
    return fork.forked_from == of.row.pk and fork.is_never_resumed_fork


def _choose_distinct_session_names(head: SessionHead, other: SessionHead) -> tuple[str, str]:
    """Return the titles of both sessions; the short id where there is none, and of both if the titles begin alike."""
    ids = shorten_uuids(head.row.session_id), shorten_uuids(other.row.session_id)
    names = head.row.title or ids[0], other.row.title or ids[1]
    if names[0][:_SHORTEST_NAME] != names[1][:_SHORTEST_NAME]:
        return names
    if ids[0][:_SHORTEST_NAME] == ids[1][:_SHORTEST_NAME]:
        return shorten_text_in_middle(ids[0], _SHORTEST_NAME), shorten_text_in_middle(ids[1], _SHORTEST_NAME)
    return ids


def _have_equal_seconds(moments: Sequence[datetime]) -> bool:
    """Return whether two neighbouring moments differ only in their fractions of a second."""
    return any(one.replace(microsecond=0) == next_one.replace(microsecond=0) for one, next_one in pairwise(moments))


def _parse_open_folds(request: MemberRequest) -> list[int]:
    """Return the positions of the expanded ranges; only the last ones of the query are used."""
    texts = [text for text in request.GET.getlist("open") if text.isascii() and text.isdigit() and len(text) <= 9]
    return list(dict.fromkeys(map(int, texts)))[-_OPEN:]


def _get_other_session_head_or_404(request: MemberRequest, head: SessionHead) -> SessionHead:
    """Return the session of the second version: the one named by `with`, else the same. Raises `PageNotFound`."""
    text = request.GET.get("with", "")
    pk = parse_number_parameter_or_none(request, "with") if text else head.row.pk
    if pk is None:
        raise PageNotFound(
            _("There is no such session to compare with."), _("The address of a session ends in a number."), head
        )
    return head if pk == head.row.pk else get_session_head_and_mask_secrets_or_404(request, pk)


def _build_comparison_url_or_none(request: MemberRequest, session_id: str) -> str | None:
    """Return the URL of this page with the session that has this id as the other one; None if there is none."""
    found = session_rows.find_session_pk(request.membership.workspace_id, session_id)
    version = parse_number_parameter_or_none(request, "a")
    parameters = {"with": found} | ({} if version is None else {"a": version})
    return None if found is None else f"{request.path}?{urlencode(parameters)}"


def _parse_optional_version_or_404(request: MemberRequest, name: str, head: SessionHead) -> int | None:
    """Return the version that a parameter names; None if it is absent. Raises `PageNotFound`."""
    text, version = request.GET.get(name, ""), parse_number_parameter_or_none(request, name)
    if text and (version is None or version_lookup.load_version(head.row.pk, version) is None):
        raise build_missing_version_error(head, text[:20])
    return version
