from collections.abc import Iterator
from functools import partial
from typing import Final

from django.urls import URLPattern, path, re_path

from harness_site.api import openapi_views
from harness_site.api.ninja_api import api
from harness_site.api.openapi_document import find_operation
from harness_site.api.request_pipeline import raise_route_not_found, wrap_route_view

app_name = "harness_api"


#: Routes that agents request most, to which a request is compared first.
_FREQUENT: Final = frozenset(
    f"sessions/<escaped:session_id>/{path}" for path in ("versions", "calls", "calls/<escaped:call_id>")
)


def _wrap_api_routes() -> Iterator[URLPattern]:
    """Serve each route of the API with everything that all routes have in common."""
    for pattern in sorted(api.urls[0], key=lambda pattern: str(pattern.pattern) not in _FREQUENT):
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            view = wrap_route_view(pattern.callback, partial(find_operation, str(pattern.pattern)))
            yield URLPattern(pattern.pattern, view, pattern.default_args, pattern.name)


urlpatterns = [
    path("openapi.json", openapi_views.show_openapi_document, name="openapi"),
    path("", openapi_views.show_api_reference, name="reference"),
    *_wrap_api_routes(),
    re_path(r"^(?P<path>.*)$", raise_route_not_found),
]
