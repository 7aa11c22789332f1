"""The OpenAPI document, and a page to read it. Both are public: they say nothing about this installation's data."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from harness_site.api.json_responses import build_json_response
from harness_site.api.ninja_api import build_openapi_document


@cache
def _get_openapi_document(prefix: str) -> dict[str, Any]:
    return build_openapi_document(prefix)


@login_not_required
@require_GET
def show_openapi_document(request: HttpRequest) -> HttpResponse:
    """Show the OpenAPI document."""
    return build_json_response(_get_openapi_document(reverse("harness_api:reference")))


@login_not_required
@require_GET
def show_api_reference(request: HttpRequest) -> HttpResponse:
    """Show the routes as a page."""
    document = _get_openapi_document(reverse("harness_api:reference"))
    operations = [
        {"method": method.upper(), "path": path, "tag": operation["tags"][0], **operation}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    groups = {
        tag: [op for op in operations if op["tag"] == tag] for tag in dict.fromkeys(op["tag"] for op in operations)
    }
    return render(request, "api/reference.html", {"document": document, "groups": groups})
