"""The versions of a session, and any two of them side by side."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.queries import compare as comparing
from checkpoints.queries import versions as reading
from harness_site.accounts.guard import MemberRequest
from harness_site.sessions.lookup import headline, no_version, number, reader


@require_GET
@reader
def versions(request: MemberRequest, pk: int) -> HttpResponse:
    head = headline(request, pk)
    page = reading.page(pk, before=number(request, "before"))
    context = {"head": head, "tab": "versions", "page": page, "first_page": number(request, "before") is None}
    return render(request, "sessions/versions.html", context)


@require_GET
@reader
def compare(request: MemberRequest, pk: int) -> HttpResponse:
    """`a` and `b` are versions; without them, the newest against the one before it."""
    head = headline(request, pk)
    numbers = reading.numbers(pk, around=head.row.version)
    asked = {name: request.GET.get(name, "") for name in ("a", "b")}
    a, b = number(request, "a"), number(request, "b")
    for name, value in (("a", a), ("b", b)):
        if asked[name] and (value is None or reading.one(pk, value) is None):
            raise no_version(head, asked[name][:20])
    if b is None:
        b = next((found for found in numbers if found != a), None)
    if a is None:
        a = next((found for found in numbers if b is not None and found < b), b)
    found = comparing.compare(pk, a, b) if a is not None and b is not None else None
    context = {"head": head, "tab": "versions", "found": found, "numbers": numbers}
    return render(request, "sessions/compare.html", context)
