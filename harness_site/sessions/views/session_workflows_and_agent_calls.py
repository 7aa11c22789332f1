"""Workflow steps and peer calls of one session."""

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.masking.mask_argument_secrets_throughout_session import (
    mask_secrets_in_session_names_until_response,
    mask_session_secrets_until_response,
)
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.sessions.json_and_text_excerpts import mask_fields_and_format_value_as_inline_text
from harness_site.sessions.selectors import (
    agent_request_chain,
    requests_from_other_agents,
    waits_for_other_agents,
    workflow_steps,
)
from harness_site.sessions.selectors.agent_request_chain import RequestChain
from harness_site.sessions.selectors.requests_from_other_agents import AskingCall
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.waits_for_other_agents import PeerCallRow
from harness_site.sessions.selectors.workflow_steps import WorkflowCursor
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)


@require_GET
@require_member_and_handle_page_not_found
def list_workflows(request: MemberRequest, pk: int) -> HttpResponse:
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    after = WorkflowCursor.parse(request.GET.get("after", ""))
    page = workflow_steps.load_workflow_page(pk, after=after)
    return render(request, "sessions/workflows.html", {"head": head, "tab": "workflows", "page": page, "after": after})


@require_GET
@require_member_and_handle_page_not_found
def list_calls_to_other_agents(request: MemberRequest, pk: int) -> HttpResponse:
    """List the peer calls of a session, after the one that it works on itself.

    With `join` (a primary key), only the calls of that join whose keys are greater than `after`.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    join_pk, before = parse_number_parameter_or_none(request, "join"), parse_number_parameter_or_none(request, "before")
    context = {"head": head, "tab": "peers", "before": before}
    if join_pk is None:
        page = waits_for_other_agents.load_pause_page(pk, before=before)
        if before is None and head.asking_call is not None:
            context |= {"asking": head.asking_call, "asked": _load_request_and_mask_secrets(request, head.asking_call)}
        if before is None:
            context["chain"] = _load_request_chain_and_mask_secrets(request, head)
        return render(request, "sessions/peers.html", context | {"page": page})
    join = waits_for_other_agents.load_join_with_call_page(
        pk, join_pk, after=parse_number_parameter_or_none(request, "after") or 0
    )
    if join is None:
        raise PageNotFound(
            _("This session has no such group of calls to other agents."),
            _("Its tab “Peers” lists those it has."),
            head,
        )
    return render(
        request,
        "sessions/join.html",
        context | {"join": join, "after": parse_number_parameter_or_none(request, "after")},
    )


def _load_request_and_mask_secrets(request: MemberRequest, asking: AskingCall) -> PeerCallRow | None:
    """Load the request that a session works on; it belongs to the session that asked, whose secrets it may have."""
    mask_session_secrets_until_response(asking.session_pk)
    mark_excerpts_shown_in_response(request, "peers", {asking.session_pk})
    return requests_from_other_agents.load_unaltered_request(asking)


def _load_request_chain_and_mask_secrets(request: MemberRequest, head: SessionHead) -> RequestChain | None:
    """Load the chain of requests around a session; names, questions and answers may have secrets of other sessions."""
    chain = agent_request_chain.load_request_chain(head)
    if chain is not None:
        values = chain.list_values_by_session()
        texts = {pk: tuple(map(mask_fields_and_format_value_as_inline_text, values[pk])) for pk in values}
        names = chain.list_names_by_session()
        texts_and_names = {pk: (*texts.get(pk, ()), *names.get(pk, ())) for pk in texts.keys() | names.keys()}
        texts_and_names.pop(head.row.pk, None)
        mask_secrets_in_session_names_until_response(texts_and_names)
        asking = {head.asking_call.session_pk} if head.asking_call is not None else set()
        mark_excerpts_shown_in_response(request, "peers", asking | (texts.keys() - {head.row.pk}))
    return chain
