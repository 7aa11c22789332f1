"""Errors as problem details (RFC 9457): the type is the name of the library's exception."""

from __future__ import annotations

import inspect
import logging
from http import HTTPStatus
from typing import Any, Final

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from checkpoints import exceptions
from checkpoints.exceptions import CheckpointsError
from harness_site.api.json_responses import build_json_response

logger = logging.getLogger(__name__)

PROBLEM: Final = "application/problem+json"
#: Methods of requests that write nothing.
READING_METHODS: Final = ("GET", "HEAD")
#: Seconds after which a client may ask again when the database could not be reached or was busy.
_UNAVAILABLE_SECONDS: Final = 1
#: Status of each error; a class has the status of its nearest base in this table.
STATUSES: Final[dict[type[CheckpointsError], HTTPStatus]] = {
    CheckpointsError: HTTPStatus.CONFLICT,
    exceptions.InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    exceptions.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    exceptions.SessionExists: HTTPStatus.CONFLICT,
    exceptions.NotFound: HTTPStatus.NOT_FOUND,
    exceptions.NotPermitted: HTTPStatus.FORBIDDEN,
    exceptions.ReasonRequired: HTTPStatus.UNPROCESSABLE_ENTITY,
    exceptions.StaleRevision: HTTPStatus.PRECONDITION_FAILED,
    exceptions.FileError: HTTPStatus.UNPROCESSABLE_ENTITY,
    exceptions.StorageError: HTTPStatus.INTERNAL_SERVER_ERROR,
    exceptions.StorageUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    exceptions.StorageBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    exceptions.StorageFull: HTTPStatus.INSUFFICIENT_STORAGE,
    exceptions.InsideTransaction: HTTPStatus.INTERNAL_SERVER_ERROR,
    exceptions.CheckpointCorrupted: HTTPStatus.INTERNAL_SERVER_ERROR,
    exceptions.SchemaFromFuture: HTTPStatus.INTERNAL_SERVER_ERROR,
    exceptions.SealError: HTTPStatus.INTERNAL_SERVER_ERROR,
    exceptions.SecretsLocked: HTTPStatus.INTERNAL_SERVER_ERROR,
    exceptions.TokenInvalid: HTTPStatus.UNAUTHORIZED,
    exceptions.RoleInsufficient: HTTPStatus.FORBIDDEN,
    exceptions.RouteNotFound: HTTPStatus.NOT_FOUND,
    exceptions.MalformedRequest: HTTPStatus.BAD_REQUEST,
    exceptions.RateLimited: HTTPStatus.TOO_MANY_REQUESTS,
    exceptions.IdempotencyKeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    exceptions.PreconditionFailed: HTTPStatus.PRECONDITION_FAILED,
}


def get_http_status_of_error(error: CheckpointsError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    return get_http_status_of_class(type(error))


def get_http_status_of_class(kind: type[CheckpointsError]) -> HTTPStatus:
    """Return the HTTP status of the errors of a class."""
    return next(STATUSES[base] for base in kind.__mro__ if base in STATUSES)


def build_problem_response(error: CheckpointsError, status: int | None = None) -> HttpResponse:
    """Build the answer for an error of the library.

    `facts` are the attributes of the exception, from which a client builds the same one. `may_have_happened` says
    whether a write may be there in spite of the error.
    """
    status = get_http_status_of_error(error) if status is None else status
    problem: dict[str, Any] = {
        "type": type(error).__name__,
        "title": (inspect.getdoc(type(error)) or "").partition("\n")[0],
        "status": int(status),
        "detail": error.detail,
        "hint": error.hint,
        "may_have_happened": bool(getattr(error, "may_have_happened", False)),
        "facts": {name: value for name, value in vars(error).items() if name != "may_have_happened"},
    }
    response = build_json_response(problem, status, content_type=PROBLEM)
    if isinstance(error, exceptions.TokenInvalid):
        response["WWW-Authenticate"] = 'Bearer error="invalid_token"'
    elif isinstance(error, exceptions.RoleInsufficient):
        response["WWW-Authenticate"] = 'Bearer error="insufficient_scope"'
    elif isinstance(error, exceptions.RateLimited):
        response["Retry-After"] = str(max(1, round(error.retry_after)))
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        response["Retry-After"] = str(_UNAVAILABLE_SECONDS)
    response["Cache-Control"] = "no-store"
    if isinstance(error, exceptions.ReviewRequired):
        # An agent that waits for a person asks again and again; Django would log a warning each time.
        response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def convert_error_to_problem_response(request: HttpRequest, error: Exception) -> HttpResponse:
    """Build the answer for any error. One that is not the library's is logged, and its text stays here.

    A request that only reads cannot have written anything, although its statement may have reached the database.
    """
    is_write = request.method not in READING_METHODS
    if isinstance(error, exceptions.StorageError) and error.may_have_happened and not is_write:
        return build_problem_response(type(error)(error.what, may_have_happened=False))
    if isinstance(error, CheckpointsError):
        return build_problem_response(error)
    logger.error("The API could not answer a request.", exc_info=error)
    if isinstance(error, DatabaseError):
        return build_problem_response(
            exceptions.StorageUnavailable("The database of the server failed.", may_have_happened=is_write)
        )
    return build_problem_response(exceptions.ServerFailed("The server failed.", may_have_happened=is_write))


def build_method_not_allowed_problem(request: HttpRequest, allowed: str) -> HttpResponse:
    """Build the answer for a method that a route does not have. `allowed` names those that it has."""
    problem = build_problem_response(
        exceptions.RouteNotFound(request.method or "", request.path), HTTPStatus.METHOD_NOT_ALLOWED
    )
    problem["Allow"] = allowed
    return problem
