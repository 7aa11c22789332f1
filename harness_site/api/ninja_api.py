"""The API: its routes and its errors."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import register_converter
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.operation import Operation
from ninja.parser import Parser

from checkpoints import __version__
from checkpoints.exceptions import InvalidFields, MalformedRequest
from checkpoints.integrity import quarantine
from checkpoints.store.database_client_state import Store
from harness_site.api.json_request_bodies import parse_json_body
from harness_site.api.problem_details import build_problem_response, convert_error_to_problem_response

DESCRIPTION: Final = (
    "Durable agent sessions. Every write takes an `Idempotency-Key`; a write of a run names the `fence` of its "
    "opening. Errors are problem details (RFC 9457) whose `type` is the name of the library's exception. "
    "In paths, write `~1` for a slash in an identifier, `~0` for a tilde, and `~2` for an identifier's only dots."
)


class EscapedConverter:
    """Identifier in a path: `~1` is a slash, `~2` a dot, `~0` a tilde."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        return value.replace("~1", "/").replace("~2", ".").replace("~0", "~")

    def to_url(self, value: str) -> str:
        escaped = value.replace("~", "~0").replace("/", "~1")
        return escaped.replace(".", "~2") if set(escaped) == {"."} else escaped


register_converter(EscapedConverter, "escaped")


class _StrictParser(Parser):
    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        return parse_json_body(request.content)  # type: ignore[attr-defined]


class _Api(NinjaAPI):
    #: Response that ninja fills with what a view returns; every view here builds its own.
    _unused_response = HttpResponse()

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        return self._unused_response

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return str(operation.view_func.__name__)


def _create_api() -> NinjaAPI:
    from harness_site.api import (
        calls,
        decisions,
        paused_runs_and_peer_calls,
        search,
        session_export_route,
        sessions,
        versions,
        workflows,
        workspace_events,
    )

    created = _Api(
        title="Harness",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        openapi_url=None,
        urls_namespace="harness_api",
        parser=_StrictParser(),
    )
    for module in (
        sessions,
        versions,
        calls,
        decisions,
        paused_runs_and_peer_calls,
        workflows,
        session_export_route,
        search,
        workspace_events,
    ):
        created.add_router("", module.router)
    created.exception_handler(Exception)(_quarantine_if_altered_and_build_error_response)
    created.exception_handler(HttpError)(_quarantine_if_altered_and_build_error_response)
    created.exception_handler(ValidationError)(_quarantine_if_altered_and_build_error_response)
    return created


def _quarantine_if_altered_and_build_error_response(request: HttpRequest, error: Any) -> HttpResponse:
    if isinstance(error, ValidationError):
        return build_problem_response(
            InvalidFields({_format_field_path(problem["loc"]): str(problem["msg"]) for problem in error.errors})
        )
    if isinstance(error, HttpError) and isinstance(error.__cause__, MalformedRequest):  # of `parse_json_body`
        return build_problem_response(error.__cause__)
    if isinstance(error, HttpError):
        return build_problem_response(MalformedRequest(str(error)))
    return convert_error_to_problem_response(request, _quarantine_if_altered_and_get_exception(request, error))


def _quarantine_if_altered_and_get_exception(request: Any, error: Exception) -> Exception:
    """Quarantine the session of a request if it is altered. Returns the error, or a typed one that names the row."""
    session_id = request.resolver_match.kwargs.get("session_id")
    if session_id is None:
        return error
    try:
        with quarantine.quarantine_on_integrity_error(Store(workspace_id=request.token.workspace_id), session_id):
            raise error
    except Exception as found:
        return found


def _format_field_path(path: tuple[Any, ...]) -> str:
    """Name a field as the caller wrote it, without the names of this program's parameters."""
    parts = path[2:] if path[:2] == ("body", "body") else path[1:]
    return ".".join(map(str, parts)) or "body"


api: Final = _create_api()
