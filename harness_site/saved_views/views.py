"""Views to save the filters of a list under a name, and to delete a saved view."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from checkpoints.enums import Role
from harness_site.accounts.permissions import MemberRequest, RoleTooSmall, require_member_with_role
from harness_site.saved_views import saved_view_storage
from harness_site.saved_views.filterable_lists import ADDRESSES, FILTERS, normalize_filter_query
from harness_site.saved_views.models import SavedView


class NameForm(forms.Form):
    name = forms.CharField(max_length=60, error_messages={"required": gettext_lazy("Enter a name for the view.")})


@require_POST
@require_member_with_role(Role.AUDITOR)
def create_saved_view(request: MemberRequest, page: str) -> HttpResponse:
    if page not in FILTERS:
        raise Http404
    query = normalize_filter_query(page, QueryDict(request.POST.get("query", "")))
    form = NameForm(request.POST)
    if form.is_valid():
        try:
            saved_view_storage.create_saved_view(
                request.membership, page=page, name=form.cleaned_data["name"], query=query
            )
        except saved_view_storage.SavedViewRefused as refused:
            form.add_error("name", str(refused))
        else:
            messages.success(request, _("The view “%(name)s” was saved.") % {"name": form.cleaned_data["name"]})
            return _redirect_to_list(page, query)
    context = {"form": form, "page": page, "query": query, "back": _build_list_url(page, query)}
    return render(request, "saved/refused.html", context, status=422)


@require_POST
@require_member_with_role(Role.AUDITOR)
def delete_saved_view(request: MemberRequest, pk: int) -> HttpResponse:
    if pk >= 2**63:
        raise Http404
    view = get_object_or_404(SavedView, pk=pk, workspace=request.membership.workspace)
    if not view.can_be_removed_by(request.membership):
        raise RoleTooSmall(request.membership, Role.ADMIN)
    saved_view_storage.delete_saved_view(view)
    messages.success(request, _("The view “%(name)s” was deleted.") % {"name": view.name})
    return _redirect_to_list(view.page, view.query)


def _redirect_to_list(page: str, query: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(_build_list_url(page, query))


def _build_list_url(page: str, query: str) -> str:
    return f"{ADDRESSES[page]}?{query}" if query else str(ADDRESSES[page])
