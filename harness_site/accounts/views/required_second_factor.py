"""Page of a member whose workspace requires a second factor that they do not have yet, and removal of a factor."""

from typing import Final, cast

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from harness_site.accounts.models import FactorScope, Membership
from harness_site.accounts.permissions import find_request_membership
from harness_site.accounts.safe_redirect_targets import get_safe_redirect_path
from harness_site.accounts.second_factor_holders_and_requirements import find_unmet_requirement

#: Key in the user session of the address that was refused.
NEXT_KEY: Final = "after_second_factor"


@require_GET
def show_required_second_factor(request: HttpRequest) -> HttpResponse:
    """Say who requires a second factor and lead to its set-up; with one, lead to the page that was refused."""
    membership = find_request_membership(request)
    requirement = None if membership is None else find_unmet_requirement(membership)
    if membership is None or requirement is None:
        return redirect(get_safe_redirect_path(request.session.pop(NEXT_KEY, "")))
    if request.GET.get("next"):
        request.session[NEXT_KEY] = get_safe_redirect_path(request.GET["next"])
    context = {
        "membership": membership,
        "requirement": requirement,
        "is_of_everybody": requirement.scope == FactorScope.EVERYBODY,
        "not_saved": "not-saved" in request.GET,
        "others": Membership.objects.filter(user=cast(User, request.user))
        .exclude(pk=membership.pk)
        .select_related("workspace")
        .order_by("pk"),
    }
    return render(request, "accounts/required_factor.html", context)
