"""Views to save the filters of a list under a name, and to update, rename and delete a saved view."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from checkpoints.enums import Role
from harness_site.accounts.permissions import MemberRequest, RoleTooSmall, require_member_with_role
from harness_site.saved_views import saved_view_storage
from harness_site.saved_views.list_filter_normalization import ADDRESSES, FILTERS, normalize_filter_query
from harness_site.saved_views.models import SavedView
from harness_site.saved_views.refused_form_in_user_session import (
    PARAMETER,
    RefusedViewForm,
    store_refused_form_and_get_token,
)


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
        name = form.cleaned_data["name"]
        try:
            saved_view_storage.create_saved_view(request.membership, page=page, name=name, query=query)
        except saved_view_storage.SavedViewRefused as refused:
            form.add_error("name", str(refused))
        else:
            messages.success(request, _("The view “%(name)s” was saved.") % {"name": name})
            return _redirect_to_list(page, query)
    return _redirect_to_list_with_refused_form(request, form, page=page, query=query)


@require_POST
@require_member_with_role(Role.AUDITOR)
def update_or_replace_saved_view(request: MemberRequest, page: str) -> HttpResponse:
    """Give the view `view` of a list the filters of the form, or those of the view `replacement`, which is deleted."""
    if page not in FILTERS:
        raise Http404
    view = _get_changeable_view_or_404(request, request.POST.get("view", ""), page=page)
    if key := request.POST.get("replacement", ""):
        replacement = _get_changeable_view_or_404(request, key, page=page)
        if replacement == view:
            raise Http404
        try:
            saved_view_storage.overwrite_view_and_delete_replacement(view, replacement)
        except SavedView.DoesNotExist as error:
            raise Http404 from error
        messages.success(
            request,
            _("The view “%(name)s” has the filters of “%(replacement)s” now, which was deleted.")
            % {"name": view.name, "replacement": replacement.name},
        )
        return _redirect_to_list(page, replacement.query)
    query = normalize_filter_query(page, QueryDict(request.POST.get("query", "")))
    saved_view_storage.update_filters_of_saved_view(view, query)
    messages.success(request, _("The view “%(name)s” was updated.") % {"name": view.name})
    return _redirect_to_list(page, query)


@require_POST
@require_member_with_role(Role.AUDITOR)
def rename_saved_view(request: MemberRequest, pk: int) -> HttpResponse:
    view = _get_changeable_view_or_404(request, str(pk))
    form = NameForm(request.POST)
    if form.is_valid():
        name = form.cleaned_data["name"]
        try:
            saved_view_storage.rename_saved_view(view, name, by=request.membership)
        except saved_view_storage.SavedViewRefused as refused:
            form.add_error("name", str(refused))
        else:
            messages.success(request, _("The view is now named “%(name)s”.") % {"name": name})
            return _redirect_to_list(view.page, view.query)
    return _redirect_to_list_with_refused_form(request, form, page=view.page, query=view.query, view=view)


@require_POST
@require_member_with_role(Role.AUDITOR)
def delete_saved_view(request: MemberRequest, pk: int) -> HttpResponse:
    view = _get_changeable_view_or_404(request, str(pk))
    saved_view_storage.delete_saved_view(view)
    messages.success(request, _("The view “%(name)s” was deleted.") % {"name": view.name})
    return _redirect_to_list(view.page, view.query)


def _get_changeable_view_or_404(request: MemberRequest, key: str, **fields: str) -> SavedView:
    """Return a view of the workspace by its primary key. Raises `Http404`, and `RoleTooSmall` for other members."""
    if not (key.isascii() and key.isdecimal() and int(key) < 2**63):
        raise Http404
    view = get_object_or_404(SavedView, pk=int(key), workspace=request.membership.workspace, **fields)
    if not view.can_be_changed_by(request.membership):
        raise RoleTooSmall(request.membership, Role.ADMIN)
    return view


def _redirect_to_list_with_refused_form(
    request: MemberRequest, form: NameForm, *, page: str, query: str, view: SavedView | None = None
) -> HttpResponseRedirect:
    """Redirect to the list, which shows the form with its error; the input is kept."""
    name, error = str(form["name"].value() or ""), str(form.errors["name"][0])
    refused = RefusedViewForm(page, query, name, error, None if view is None else view.pk)
    token = store_refused_form_and_get_token(request, refused)
    parameters = QueryDict(query, mutable=True)
    parameters[PARAMETER] = token
    return _redirect_to_list(page, parameters.urlencode())


def _redirect_to_list(page: str, query: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(_build_list_url(page, query))


def _build_list_url(page: str, query: str) -> str:
    return f"{ADDRESSES[page]}?{query}" if query else str(ADDRESSES[page])
