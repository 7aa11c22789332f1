"""Processing shared by all routes: token, rate limit, body, idempotency key, problems, compression."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from http import HTTPStatus
from typing import Any, Final, cast

from allauth.account.adapter import get_adapter
from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from ninja.security import HttpBearer

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.exceptions import (
    CheckpointsError,
    InvalidFields,
    InvalidIdentifier,
    RequestInProgress,
    RoleInsufficient,
    RouteNotFound,
    TokenInvalid,
)
from checkpoints.generate_and_validate_ids import validate_id
from harness_site.accounts import api_tokens, load_masking_rules
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.accounts.token_authentication import COVERS
from harness_site.api import (
    client_checkpointer_cache,
    idempotent_writes,
    in_process_rate_limit,
    json_request_bodies,
    postgres_query_plan_reuse,
)
from harness_site.api.idempotent_writes import KeyedWrite
from harness_site.api.models import ApiWrite
from harness_site.api.problem_details import build_method_not_allowed_problem, convert_error_to_problem_response
from harness_site.api.skip_page_middleware_for_tokens import mark_view_as_token_authenticated
from harness_site.core.masking import masker

_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
#: Answers smaller than this are not compressed.
_COMPRESSED_FROM: Final = 2_048


class ApiRequest(HttpRequest):
    """Request with a valid token; created only by `wrap_route_view`.

    Headers are read from `META`: `headers` would copy all of them first.
    """

    token: ApiToken
    #: Body, decompressed.
    content: bytes
    #: Requests that the token may make besides.
    allowance: in_process_rate_limit.Allowance
    #: Note of an earlier attempt of the same write, which may have been done; None for a first attempt.
    repeated: ApiWrite | None
    #: Name of the write, the same in each attempt of it.
    write_name: str

    @property
    def checkpointer(self) -> SyncCheckpointer:
        """State of the client that makes the request."""
        return get_client_checkpointer(self)


def get_client_checkpointer(request: HttpRequest) -> SyncCheckpointer:
    """Return the state of the client that makes a request."""
    token: ApiToken = request.token  # type: ignore[attr-defined]
    return client_checkpointer_cache.get_or_create_checkpointer(
        token, request.META.get("HTTP_HARNESS_CLIENT", "")[:255]
    )


class RoleToken(HttpBearer):
    """Bearer token whose role covers one of `roles`; the token itself is checked before."""

    openapi_description = "Token from the settings of the site, of the role agent, auditor or approver."

    def __init__(self, *roles: TokenRole) -> None:
        super().__init__()
        self.roles: Sequence[TokenRole] = roles

    def __call__(self, request: HttpRequest) -> Any:
        token = cast(ApiRequest, request).token
        if not COVERS[TokenRole(token.role)] & set(self.roles):
            raise RoleInsufficient(token.role, [str(role) for role in self.roles])
        return token

    def list_covering_roles(self) -> list[str]:
        """List the roles of the tokens that are accepted."""
        return [role.value for role in TokenRole if COVERS[role] & set(self.roles)]

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        raise NotImplementedError  # `__call__` does not come to it


AGENT: Final = RoleToken(TokenRole.AGENT)
READER: Final = RoleToken(TokenRole.AGENT, TokenRole.AUDITOR)
APPROVER: Final = RoleToken(TokenRole.APPROVER)

View = Callable[..., HttpResponse]


@dataclass(frozen=True)
class RouteOperation:
    """One method of a route.

    `parameters` are those that its query may have. With `stores_key` its first statement is mostly a hot one, which can
    note the key of the request.
    """

    parameters: frozenset[str] = frozenset()
    stores_key: bool = False


FindOperation = Callable[[str], RouteOperation | None]


def _build_operation_without_parameters(method: str) -> RouteOperation:
    return RouteOperation()


def wrap_route_view(
    view: View,
    find_operation: FindOperation = _build_operation_without_parameters,
    convert_error: Callable[[HttpRequest, Exception], HttpResponse] = convert_error_to_problem_response,
) -> View:
    """Wrap the view of a route. Browsers never send the Authorization header by themselves, and no cookie is read.

    `find_operation` returns the operation of a method, and None for a method that the route does not have;
    `convert_error` builds the answer for an error.
    """

    @mark_view_as_token_authenticated
    @login_not_required
    @csrf_exempt
    @wraps(view)
    def serve_request(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = _authenticate_and_serve_request(
                cast(ApiRequest, request), partial(view, request, *args, **kwargs), find_operation
            )
        except Exception as error:  # every error becomes a problem
            response = convert_error(request, error)
        allowance: in_process_rate_limit.Allowance | None = getattr(request, "allowance", None)
        if allowance is not None:
            for name, value in allowance.get_headers().items():
                response[name] = value
        return _compress_response(request, response)

    return serve_request


def _authenticate_and_serve_request(
    request: ApiRequest, view: Callable[[], HttpResponse], find_operation: FindOperation
) -> HttpResponse:
    authorization = request.META.get("HTTP_AUTHORIZATION", "")
    operation = find_operation(request.method or "")
    is_write = operation is not None and request.method in _WRITES
    key = request.META.get("HTTP_IDEMPOTENCY_KEY", "") if is_write else ""
    accept = partial(_authenticate_count_and_validate_request, request, authorization, operation)
    if not key:
        accept()
        _read_body_into_request(request)
        return idempotent_writes.claim_call_of_keyless_write_or_replace_response(
            request.token, _serve_view_under_token_masking(request, view, key, None)
        )
    try:
        with idempotent_writes.refuse_concurrent_requests_with_key(authorization, key):
            serve, note = partial(_serve_view_under_token_masking, request, view, key), None
            token = _find_token_for_single_statement_write(request, authorization, key)
            if token is None:
                accept()
                write = _read_body_as_keyed_write(request, key)
            else:
                try:
                    write = _read_body_as_keyed_write(request, key)
                except CheckpointsError:
                    accept()  # a refused token and the limit of requests come before what is wrong with the body
                    raise
                if operation is not None and operation.stores_key:
                    response = _serve_write_that_stores_key(request, token, write, serve)
                    if response is not None:
                        return response
                if connection.vendor == "postgresql":
                    reader = idempotent_writes.KeyStoringTokenReader(write)
                    accept(reader.read_token_row_and_store_key)
                    note = reader.build_api_write_if_key_newly_stored(request.token)
                else:
                    accept()
            return idempotent_writes.serve_write_once(request.token, write, note, serve)
    except RequestInProgress:
        accept()
        raise


def _authenticate_count_and_validate_request(
    request: ApiRequest,
    authorization: str,
    operation: RouteOperation | None,
    read_token_row: api_tokens.ReadRow = api_tokens.read_token_row,
) -> None:
    """Authenticate the token of a request, count the request, and check the names of its parameters."""
    try:
        request.token = api_tokens.authenticate_bearer_header_or_raise(
            authorization, find_address=partial(get_adapter().get_client_ip, request), read_token_row=read_token_row
        )
    except api_tokens.TokenRefused:
        vars(request).pop("allowance", None)  # the request was counted as one of the token that was known
        raise TokenInvalid from None
    if not hasattr(request, "allowance"):
        request.allowance = in_process_rate_limit.count_request_or_raise_rate_limited(request.token.pk)
    if operation is not None and request.META.get("QUERY_STRING"):
        _reject_unknown_or_repeated_parameters(request, operation.parameters)


def _find_token_for_single_statement_write(request: ApiRequest, authorization: str, key: str) -> ApiToken | None:
    """Return the token of a write whose key can be stored by the statement that checks the token.

    It has to be a token that this process has accepted before, and that may make a request now, and the request has no
    parameters that could be unknown: what a stranger sends is not decompressed, and a request that is refused leaves
    no note, except for one that comes just when its token has used up its requests.
    """
    if request.META.get("QUERY_STRING"):
        return None
    try:
        validate_id("Idempotency-Key", key)
    except InvalidIdentifier:
        return None
    token = api_tokens.find_cached_active_token_of_header(authorization)
    return token if token is not None and in_process_rate_limit.has_request_left_without_counting(token.pk) else None


def _serve_write_that_stores_key(
    request: ApiRequest, token: ApiToken, write: KeyedWrite, serve: Callable[[ApiWrite | None], HttpResponse]
) -> HttpResponse | None:
    """Serve a write with the token as it is known; its first statement checks the token and notes the key.

    Returns None if nothing was written. A use of the token that has to be recorded takes the other way.
    """
    if connection.in_atomic_block or not api_tokens.is_recent_use_recorded(token, clock.now()):
        return None
    request.token = token
    request.allowance = in_process_rate_limit.count_request_or_raise_rate_limited(token.pk)
    with postgres_query_plan_reuse.reuse_query_plans_in_context():
        return idempotent_writes.serve_write_that_stores_key(token, write, serve)


def _read_body_into_request(request: ApiRequest) -> None:
    request.content = json_request_bodies.read_decompressed_body(request) if request.method in _WRITES else b""
    request._body = request.content  # Django would refuse to read the stream again


def _read_body_as_keyed_write(request: ApiRequest, key: str) -> KeyedWrite:
    _read_body_into_request(request)
    return KeyedWrite(request.method or "", request.get_full_path(), request.content, key)


def _serve_view_under_token_masking(
    request: ApiRequest, view: Callable[[], HttpResponse], key: str, repeated: ApiWrite | None
) -> HttpResponse:
    request.repeated = repeated
    request.write_name = idempotent_writes.build_write_name_from_key_or_random(request.token, key)
    with _use_masking_rules_of_token(request.token):
        response = view()
    if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return build_method_not_allowed_problem(request, response["Allow"])
    return response


def _reject_unknown_or_repeated_parameters(request: HttpRequest, known: frozenset[str]) -> None:
    problems = {name: "There is no such parameter." for name in request.GET if name not in known}
    problems |= {name: "It is given twice." for name in known if len(request.GET.getlist(name)) > 1}
    if problems:
        raise InvalidFields(problems)


@contextmanager
def _use_masking_rules_of_token(token: ApiToken) -> Iterator[None]:
    """Mask secrets as on pages; an agent reads what it wrote itself."""
    is_agent = token.role == TokenRole.AGENT
    with masker.use_masking_rules(
        None if is_agent else load_masking_rules.load_workspace_masking_rules(token.workspace)
    ):
        yield


def _compress_response(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    accepts = "gzip" in request.META.get("HTTP_ACCEPT_ENCODING", "")
    if response.streaming or not accepts or len(response.content) < _COMPRESSED_FROM:
        return response
    response.content = gzip.compress(response.content, compresslevel=1, mtime=0)
    response["Content-Encoding"] = "gzip"
    response["Vary"] = "Accept-Encoding"
    return response


@wrap_route_view
def raise_route_not_found(request: HttpRequest, path: str = "") -> HttpResponse:
    """Raise `RouteNotFound` for a path that is none of the API's."""
    raise RouteNotFound(request.method or "", request.path)
