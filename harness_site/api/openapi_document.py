"""The API's OpenAPI document: parameters, problems and roles of the operations, and the operation of a route."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from ninja.openapi.schema import OpenAPISchema

from harness_site.api.ninja_api import api
from harness_site.api.request_pipeline import RouteOperation


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
