"""Content of the page of the HTTP API: what the OpenAPI document says, with recorded examples and the errors.

`make api-examples` records the examples again.
"""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from checkpoints import exceptions
from checkpoints.exceptions import CheckpointsError
from harness_site.api import problem_details
from harness_site.api.openapi_document import build_openapi_document
from harness_site.core.rendering.syntax_highlighting import highlight_code_without_masking

EXAMPLES_FILE_NAME: Final = "reference_examples.json"
#: Topic of the operations with this tag, in the order of the page.
_TOPICS: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    "sessions": (
        _("Sessions"),
        _("Open a session, keep it, and end it."),
    ),
    "versions": (_("Versions"), _("Save the state of a session after each turn, and read any earlier state.")),
    "calls": (_("Tool calls"), _("Log each tool call with a side effect before it runs, and its outcome afterwards.")),
    "decisions": (_("Decisions"), _("List the calls that wait for a person, and decide about them.")),
    "workflows": (_("Workflows"), _("Run the steps of a function in order, each of them once.")),
    "peers": (_("Other agents"), _("Pause a session until other agents have answered.")),
    "reading": (_("Search and export"), _("Find sessions by their text, and read a whole session as a file.")),
    "events": (_("Events"), _("Follow what happens in the workspace.")),
}
#: Errors that any request can have.
_ERRORS_OF_REQUESTS: Final = (
    exceptions.TokenInvalid,
    exceptions.RoleInsufficient,
    exceptions.RouteNotFound,
    exceptions.RateLimited,
    exceptions.StorageUnavailable,
    exceptions.StorageBusy,
    exceptions.ServerFailed,
)
#: Errors that any write with a body can have.
_ERRORS_OF_BODIES: Final = (
    exceptions.MalformedRequest,
    exceptions.InvalidFields,
    exceptions.NotRepresentable,
    exceptions.TooLarge,
    exceptions.IdempotencyKeyReused,
    exceptions.RequestInProgress,
)
#: Errors that a write of a run can have.
_ERRORS_OF_RUNS: Final = (exceptions.OwnershipLost, exceptions.SessionFinished)
_ERRORS_OF_GATE: Final = (exceptions.ReviewRequired, exceptions.ApprovalRequired)
_ERRORS_OF_OPENING: Final = (
    exceptions.SessionBusy,
    *_ERRORS_OF_GATE,
    exceptions.SessionFinished,
    exceptions.PausedForPeers,
    exceptions.SessionQuarantined,
)
#: Errors that only some operations have, by operation.
ERRORS_OF_OPERATIONS: Final[dict[str, tuple[type[CheckpointsError], ...]]] = {
    "open_session": (exceptions.SessionNotFound, *_ERRORS_OF_OPENING),
    "wait_at_gate": (exceptions.OwnershipLost,),
    "fork_session": (exceptions.SessionExists, exceptions.VersionNotFound),
    "find_session_of_run": (exceptions.RunNotFound,),
    "delete_session": (exceptions.SessionBusy, exceptions.StillNeeded),
    "save_version": (exceptions.VersionConflict, *_ERRORS_OF_RUNS),
    "save_phase": (exceptions.VersionConflict, *_ERRORS_OF_RUNS),
    "load_version": (exceptions.VersionNotFound,),
    "list_messages": (exceptions.VersionNotFound,),
    "delete_version": (exceptions.VersionNotFound, exceptions.StillNeeded),
    "issue_call": (*_ERRORS_OF_GATE, exceptions.CallConflict, exceptions.CallAlreadySettled, *_ERRORS_OF_RUNS),
    "settle_call": (exceptions.CallNotFound, exceptions.LateResultRefused),
    "read_call": (exceptions.CallNotFound,),
    "record_probe": (exceptions.CallNotFound, exceptions.StaleRevision, exceptions.OwnershipLost),
    "decide": (
        exceptions.CallNotFound,
        exceptions.StaleRevision,
        exceptions.NotUndecided,
        exceptions.AlreadyDecided,
        exceptions.ReasonRequired,
        exceptions.DecisionNotAccepted,
        exceptions.DecisionExpired,
        exceptions.SecondPersonRequired,
        exceptions.EditorMayNotApprove,
        exceptions.NothingToWithdraw,
        exceptions.DecisionUsed,
    ),
    "pause_session": (exceptions.PeerCallExists, *_ERRORS_OF_RUNS),
    "take_paused": (exceptions.NotPaused, exceptions.StillWaiting, exceptions.SessionBusy, *_ERRORS_OF_GATE),
    "cancel_paused": (exceptions.NotPaused,),
    "settle_notice": (exceptions.PeerCallNotFound,),
    "extend_deadline": (exceptions.PeerCallNotFound, exceptions.PeerCallOver),
    "read_workflow": (exceptions.WorkflowNotFound,),
    "open_workflow": _ERRORS_OF_RUNS,
    "issue_step": (
        exceptions.WorkflowNotFound,
        exceptions.StepIdentityChanged,
        exceptions.StepRejected,
        *_ERRORS_OF_GATE,
        *_ERRORS_OF_RUNS,
    ),
}
#: Characters of a value that stand on one line of an example.
_LINE_LENGTH: Final = 68


@dataclass(frozen=True)
class Field:
    """Parameter of an operation, or field of its body."""

    name: str
    type: str
    required: bool
    default: str
    description: str


@dataclass(frozen=True)
class FieldGroup:
    """Fields at one place of a request."""

    title: str | Promise
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Problem:
    """Type of an error, as the field `type` of an answer names it."""

    type: str
    status: int
    meaning: str
    hint: str


@dataclass(frozen=True)
class Operation:
    """Operation of the API. `anchor` names it in the address of the page."""

    anchor: str
    method: str
    path: str
    summary: str
    description: str
    roles: tuple[str, ...]
    field_groups: tuple[FieldGroup, ...]
    curl: SafeString
    python: SafeString
    status: int
    answer: SafeString
    other_statuses: tuple[int, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Topic:
    """Operations about one thing."""

    anchor: str
    title: str | Promise
    description: str | Promise
    operations: tuple[Operation, ...]


@cache
def load_examples() -> dict[str, Any]:
    """Load the recorded example of each operation."""
    return json.loads(resources.files(__package__).joinpath(EXAMPLES_FILE_NAME).read_text())  # type: ignore[no-any-return]


@cache
def build_topics(address: str, prefix: str) -> tuple[Topic, ...]:
    """Build the operations of the API by topic. `address` is that of the site, `prefix` the path of the API."""
    document = build_openapi_document(prefix)
    schemas = document["components"]["schemas"]
    operations: dict[str, list[Operation]] = {tag: [] for tag in _TOPICS}
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            operations[described["tags"][0]].append(_build_operation(address, path, method.upper(), described, schemas))
    return tuple(Topic(tag, *_TOPICS[tag], tuple(found)) for tag, found in operations.items())


def render_example_problem() -> SafeString:
    """Build the response to a request for a session that does not exist."""
    response = problem_details.build_problem_response(exceptions.SessionNotFound("order-99"))
    return highlight_code_without_masking(_format_example_answer(json.loads(response.content)), "json")


def list_problems() -> list[Problem]:
    """List all types of errors that an answer can have, by status."""
    kinds = {kind for kinds in ERRORS_OF_OPERATIONS.values() for kind in kinds}
    kinds |= {*_ERRORS_OF_REQUESTS, *_ERRORS_OF_BODIES, exceptions.SessionNotFound, exceptions.PreconditionFailed}
    return sorted(map(_build_problem, kinds), key=lambda problem: (problem.status, problem.type))


def _build_operation(
    address: str, path: str, method: str, described: dict[str, Any], schemas: dict[str, Any]
) -> Operation:
    name = described["operationId"]
    example = load_examples()[name]
    written_path = path.format(**{key: quote(str(value), safe="~") for key, value in example["path"].items()})
    url = f"{address}{written_path}" + (f"?{urlencode(query)}" if (query := example.get("query")) else "")
    return Operation(
        name.replace("_", "-"),
        method,
        path,
        described["summary"],
        described.get("description", ""),
        tuple(described["x-roles"]),
        tuple(_group_operation_fields_by_request_part(described, schemas)),
        highlight_code_without_masking(_format_curl_example(url, method, example.get("body")), "bash"),
        highlight_code_without_masking(_format_python_example(url, method, example), "python"),
        example["status"],
        highlight_code_without_masking(_format_example_answer(example["answer"]), "json"),
        tuple(int(status) for status in described["responses"] if status not in {"default", example["status"]}),
        tuple(_build_problem(kind) for kind in _iterate_operation_errors(name, path, described)),
    )


def _iterate_operation_errors(name: str, path: str, described: dict[str, Any]) -> Iterator[type[CheckpointsError]]:
    if "/sessions/{session_id}" in path:
        yield exceptions.SessionNotFound
    yield from ERRORS_OF_OPERATIONS.get(name, ())
    if "requestBody" in described:
        yield exceptions.InvalidFields


def _build_problem(kind: type[CheckpointsError]) -> Problem:
    meaning = (inspect.getdoc(kind) or "").partition("\n")[0]
    return Problem(kind.__name__, int(problem_details.get_http_status_of_class(kind)), meaning, kind.hint)


def _group_operation_fields_by_request_part(described: dict[str, Any], schemas: dict[str, Any]) -> Iterator[FieldGroup]:
    for place, title in (("path", _("In the path")), ("query", _("In the query"))):
        parameters = [parameter for parameter in described.get("parameters", ()) if parameter["in"] == place]
        if parameters:
            yield FieldGroup(title, tuple(_build_field(one["name"], one, one["schema"]) for one in parameters))
    body = described.get("requestBody")
    if body is not None:
        schema = _resolve_schema_reference(body["content"]["application/json"]["schema"], schemas)
        required = schema.get("required", ())
        fields = [
            _build_field(name, {**field, "required": name in required}, field)
            for name, field in schema.get("properties", {}).items()
        ]
        yield FieldGroup(_("Body"), tuple(sorted(fields, key=lambda field: not field.required)))


def _build_field(name: str, described: dict[str, Any], schema: dict[str, Any]) -> Field:
    default = schema.get("default")
    return Field(
        name,
        _format_type_name(schema),
        bool(described.get("required")),
        "" if default in (None, "", [], {}) else json.dumps(default),
        described.get("description", ""),
    )


def _format_type_name(schema: dict[str, Any]) -> str:
    """Name the type of a value in one line, such as `text | null`."""
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_format_type_name, schema["anyOf"])))
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        return f"array of {_format_type_name(schema.get('items', {}))}"
    if "$ref" in schema or "allOf" in schema:
        return "object"
    return "date and time" if schema.get("format") == "date-time" else str(schema.get("type", "any value"))


def _resolve_schema_reference(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _format_curl_example(url: str, method: str, body: Any) -> str:
    is_write = method != "GET"
    target = shlex.quote(url)
    lines = [f"curl {target}" if method in {"GET", "POST"} and (body is not None or method == "GET") else ""]
    if not lines[0]:
        lines = [f"curl -X {method} {target}"]
    lines.append('-H "Authorization: Bearer $HARNESS_TOKEN"')
    if is_write:
        lines.append('-H "Idempotency-Key: $(uuidgen)"')
    if body is not None:
        lines.append('-H "Content-Type: application/json"')
        lines.append(f"-d {shlex.quote(_format_value_on_lines(body))}")
    return " \\\n  ".join(lines)


def _format_python_example(url: str, method: str, example: dict[str, Any]) -> str:
    is_write, body = method != "GET", example.get("body")
    answer = "response.text" if isinstance(example["answer"], list) else "response.json()"  # lines are no JSON value
    imports = ["import os", *(["import uuid"] if is_write else ()), "", "import requests"]
    arguments = [
        f"    {json.dumps(url)},",
        "    headers={",
        '        "Authorization": f"Bearer {token}",',
        *(['        "Idempotency-Key": str(uuid.uuid4()),'] if is_write else ()),
        "    },",
    ]
    if body is not None:
        arguments.append(f"    json={_format_value_on_lines(body, 1, _format_python_literal, '    ')},")
    return "\n".join(
        [
            *imports,
            "",
            'token = os.environ["HARNESS_TOKEN"]',
            f"response = requests.{method.lower()}(",
            *arguments,
            ")",
            f"print(response.status_code, {answer})",
        ]
    )


def _format_json_on_one_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _format_example_answer(answer: Any) -> str:
    if isinstance(answer, list):
        return "\n".join(_format_json_on_one_line(line) for line in answer)
    return _format_value_on_lines(answer)


def _format_value_on_lines(
    value: Any, depth: int = 0, write: Callable[[Any], str] = _format_json_on_one_line, indent: str = "  "
) -> str:
    """Write a value with `write`; what fits on one line stands on one line."""
    line = write(value)
    if not isinstance(value, dict | list) or not value or (depth and len(line) + len(indent) * depth <= _LINE_LENGTH):
        return line
    if isinstance(value, dict):
        items = [
            f"{write(key)}: {_format_value_on_lines(item, depth + 1, write, indent)}" for key, item in value.items()
        ]
        opening, closing = "{}"
    else:
        items = [_format_value_on_lines(item, depth + 1, write, indent) for item in value]
        opening, closing = "[]"
    inner = indent * (depth + 1)
    return f"{opening}\n" + "".join(f"{inner}{item},\n" for item in items)[:-2] + f"\n{indent * depth}{closing}"


def _format_python_literal(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(key)}: {_format_python_literal(item)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_python_literal, value)) + "]"
    return _format_json_on_one_line(value) if isinstance(value, str) else repr(value)
