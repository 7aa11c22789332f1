"""Having secrets shown, and hiding them again."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from checkpoints.enums import AuditKind, Role
from harness_site.accounts import secrecy, trail
from harness_site.accounts.again import proved_within
from harness_site.accounts.guard import MemberRequest, RoleTooSmall, member
from harness_site.accounts.places import inside

#: A proof of who somebody is counts for one request, and the time it takes to come back from it.
_PROOF_SECONDS: Final = 60


@require_POST
@member(Role.AUDITOR)
def reveal(request: MemberRequest) -> HttpResponseBase:
    """Show secrets for ten minutes, to who may see them and has just proved who they are; that is recorded."""
    needed = Role(secrecy.settings_of(request.membership.workspace).reveal_role)
    if not request.membership.may(needed):
        raise RoleTooSmall(request.membership, needed)
    return _show(request)


@proved_within(_PROOF_SECONDS)
def _show(request: MemberRequest) -> HttpResponse:
    secrecy.show(request, request.membership)
    minutes = int(secrecy.SHOWN_FOR.total_seconds() // 60)
    back = _back(request)
    trail.record(request.membership, AuditKind.UNMASKED, request=request, minutes=minutes, page=back.partition("?")[0])
    return redirect(back)


@require_POST
@member(Role.AUDITOR)
def hide(request: MemberRequest) -> HttpResponse:
    secrecy.hide(request)
    return redirect(_back(request))


def _back(request: HttpRequest) -> str:
    """The page that was open."""
    return inside(request.POST.get("next", ""))
