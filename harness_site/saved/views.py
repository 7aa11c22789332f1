"""Keeping the filters of a list under a name, and removing one that is kept."""

from django import forms
from django.http import Http404, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_POST

from checkpoints.enums import Role
from harness_site.accounts.guard import MemberRequest, RoleTooSmall, member
from harness_site.saved import keeping
from harness_site.saved.models import SavedView
from harness_site.saved.pages import ADDRESSES, FILTERS, normalised


class NameForm(forms.Form):
    name = forms.CharField(max_length=60, error_messages={"required": "A view needs a name."})


@require_POST
@member(Role.AUDITOR)
def keep(request: MemberRequest, page: str) -> HttpResponse:
    if page not in FILTERS:
        raise Http404
    query = normalised(page, QueryDict(request.POST.get("query", "")))
    form = NameForm(request.POST)
    if form.is_valid():
        try:
            keeping.keep(request.membership, page=page, name=form.cleaned_data["name"], query=query)
        except keeping.ViewRefused as refused:
            form.add_error("name", str(refused))
        else:
            return _back(page, query)
    context = {"form": form, "page": page, "query": query, "back": _address(page, query)}
    return render(request, "saved/refused.html", context, status=422)


@require_POST
@member(Role.AUDITOR)
def remove(request: MemberRequest, pk: int) -> HttpResponse:
    if pk >= 2**63:
        raise Http404
    view = get_object_or_404(SavedView, pk=pk, workspace=request.membership.workspace)
    if not view.removable_by(request.membership):
        raise RoleTooSmall(request.membership, Role.ADMIN)
    keeping.remove(view)
    return _back(view.page, view.query)


def _back(page: str, query: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(_address(page, query))


def _address(page: str, query: str) -> str:
    return f"{ADDRESSES[page]}?{query}" if query else str(ADDRESSES[page])
