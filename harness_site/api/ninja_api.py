"""The API: its routes, its errors, and its OpenAPI document."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import register_converter
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.parser import Parser

from checkpoints import __version__
from checkpoints.exceptions import InvalidFields, MalformedRequest
from checkpoints.integrity import quarantine
from checkpoints.store.database_client_state import Store
from harness_site.api.json_request_bodies import parse_json_body
from harness_site.api.problem_details import build_problem_response, convert_error_to_problem_response
from harness_site.api.request_pipeline import RouteOperation

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


def build_openapi_document(prefix: str) -> OpenAPISchema:
    """Build the OpenAPI 3.1 document with the problems of every route."""
    document: OpenAPISchema = api.get_openapi_schema(path_prefix=prefix)
    problem = {
        "description": "Problem details; `type` is the name of the exception.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    roles = _map_operations_to_roles()
    document.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM_SCHEMA
    for path in document["paths"].values():
        for method, operation in path.items():
            operation["responses"]["default"] = problem
            operation["x-roles"] = roles[operation["operationId"]]
            for parameter in operation.get("parameters", ()):
                parameter.setdefault("description", _PARAMETERS[parameter["name"]])
            if method in {"post", "patch", "delete", "put"}:
                operation.setdefault("parameters", []).extend([_KEY_PARAMETER, _CLIENT_PARAMETER])
    return document


def _map_operations_to_roles() -> dict[str, list[str]]:
    """Map each operation to the roles of the tokens that may call it."""
    return {
        operation.view_func.__name__: operation.auth_callbacks[0].list_covering_roles()  # type: ignore[attr-defined]
        for _, router in api._routers
        for view in router.path_operations.values()
        for operation in view.operations
    }


def find_operation(route: str, method: str) -> RouteOperation | None:
    """Find the operation of a route for a method; None for a method that the route does not have.

    `route` is as Django's URL patterns have it.
    """
    return _map_routes_to_operations().get((_PATH_PARAMETER.sub(r"{\1}", route), method.lower()))


@cache
def _map_routes_to_operations() -> dict[tuple[str, str], RouteOperation]:
    return {
        (path.lstrip("/"), method): RouteOperation(
            frozenset(parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"),
            operation["operationId"] in _OPERATIONS_THAT_STORE_KEY,
        )
        for path, operations in build_openapi_document("")["paths"].items()
        for method, operation in operations.items()
    }


#: Operations whose first statement is a hot one of the library, unless something is unusual.
_OPERATIONS_THAT_STORE_KEY: Final = frozenset({"save_version", "issue_call", "settle_call"})


#: Parameter of a path in a URL pattern: its converter is no part of the document.
_PATH_PARAMETER: Final = re.compile(r"<(?:\w+:)?(\w+)>")
#: Description of each parameter of a path or a query.
_PARAMETERS: Final = {
    "session_id": "Identifier of the session.",
    "call_id": "Identifier of the call, as the agent gave it.",
    "workflow_id": "Identifier of the workflow in its session.",
    "peer_call_id": "Identifier of the call to another agent.",
    "run_id": "Identifier of the run.",
    "version": "Number of the version; without one, the newest.",
    "status": "Only sessions with this status.",
    "agent": "Only those of this agent.",
    "label": "Only sessions with this label.",
    "updated_before": "Only sessions whose latest activity is before this time.",
    "after": "What comes after this position: `next`, `cursor` or `last` of an earlier response.",
    "before": "What comes before this position: `next` of an earlier response.",
    "limit": "Largest number of entries.",
    "fence": "Fence that the opening of the session returned.",
    "wait": "Seconds to wait, at most, for something to change.",
    "dry_run": "Count what would be deleted, and delete nothing.",
    "step": "Step of the call; without one, the newest that has it.",
    "attempt": "Number of the attempt; without one, the newest.",
    "revision": "Revision that the caller knows.",
    "key": "Idempotency key of the call.",
    "ready": "Only sessions that can continue.",
    "q": "Words to search for.",
}
_CLIENT_PARAMETER: Final = {
    "name": "Harness-Client",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 255},
    "description": "Name of the process, a random text: what one process opens is not another one's.",
}
_KEY_PARAMETER: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 255},
    "description": "A new key for each write; the same key repeats the write, and gets its answer.",
}
_PROBLEM_SCHEMA: Final = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail", "hint", "may_have_happened", "facts"],
    "properties": {
        "type": {"type": "string", "description": "Name of the exception."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "may_have_happened": {"type": "boolean"},
        "facts": {"type": "object", "description": "Attributes of the exception."},
    },
}
