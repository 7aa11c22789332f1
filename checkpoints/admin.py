"""Read-only Django admin for the library's models: for superusers, and without the content of sessions.

Texts, arguments, results, reasons and evidence may hold secrets, and reading them on the site writes an entry of the
audit trail. They are left out here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import BinaryField, ForeignKey, Model, TextField
from django.http import HttpRequest

from checkpoints.models import (
    AuditChain,
    AuditEvent,
    Blob,
    CallValue,
    Checkpoint,
    Decision,
    EarlyResponse,
    FrameworkState,
    FrameworkWrite,
    ImportedFile,
    IntegrityCheck,
    Join,
    LateResult,
    Message,
    PausedTask,
    PeerCall,
    Run,
    Segment,
    Session,
    ToolCall,
    Workflow,
    WorkflowStep,
    Workspace,
)

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

#: Secrets and internal columns that are not text fields.
_WITHHELD = frozenset({"token_digest", "owner_token", "key_space", "idempotency_key"})


class ReadOnlyAdmin(_ModelAdmin):
    """Base of the admin classes: lists and single rows for superusers; nothing can be added, changed or deleted."""

    actions = None
    list_per_page = 50
    show_full_result_count = False
    #: Newest first, by primary key: there may be millions of rows, and other columns have no index.
    ordering = ("-pk",)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return the names of all fields of the row except texts, bytes and secrets."""
        return [
            field.name
            for field in self.model._meta.concrete_fields
            if not isinstance(field, TextField | BinaryField) and field.name not in _WITHHELD
        ]

    def get_list_select_related(self, request: HttpRequest) -> Any:
        """Join the related rows that the list names, instead of one query for each."""
        related = [name for name in self.list_display if isinstance(name, str) and self._is_foreign_key(name)]
        return related or False

    def _is_foreign_key(self, name: str) -> bool:
        fields = {field.name: field for field in self.model._meta.concrete_fields}
        return isinstance(fields.get(name), ForeignKey)


_Names = tuple[str, ...]

_COLUMNS: dict[type[Model], tuple[_Names, _Names, _Names]] = {
    # columns, filters, fields that are searched
    Workspace: (("slug", "name", "created_at"), (), ("slug", "name")),
    Session: (
        ("session_id", "workspace", "agent", "status", "latest_version", "message_count", "updated_at"),
        ("status", "workspace"),
        ("session_id__startswith", "=agent"),
    ),
    Run: (
        ("number", "session", "status", "host", "pid", "started_at", "ended_at"),
        ("status",),
        ("=session__session_id",),
    ),
    Checkpoint: (("version", "session", "phase", "length", "created_at"), ("phase",), ("=session__session_id",)),
    Segment: (("id", "session", "parent_length", "created_at"), (), ("=session__session_id",)),
    Message: (("position", "session", "role", "message_id", "created_at"), (), ("=session__session_id", "=message_id")),
    ToolCall: (
        ("call_id", "session", "tool", "attempt", "status", "reason", "risk", "issued_at"),
        ("status", "risk", "reason"),
        ("=call_id", "=tool", "=session__session_id"),
    ),
    CallValue: (("tool_call", "type"), (), ("=tool_call__call_id",)),
    LateResult: (("tool_call", "success", "received_at"), (), ("=tool_call__call_id",)),
    Decision: (
        ("kind", "tool_call", "actor", "actor_kind", "final", "created_at"),
        ("kind", "actor_kind", "final"),
        ("=actor", "=tool_call__call_id"),
    ),
    AuditEvent: (
        ("number", "workspace", "kind", "actor", "actor_kind", "created_at"),
        ("kind", "actor_kind", "workspace"),
        ("=actor",),
    ),
    AuditChain: (("workspace", "number", "verified_number", "verified_at"), (), ("workspace__slug",)),
    PausedTask: (("number", "session", "status", "paused_at", "ended_at"), ("status",), ("=session__session_id",)),
    Join: (("join_id", "session", "status", "completed", "total"), ("status",), ("=session__session_id", "=join_id")),
    PeerCall: (
        ("call_id", "session", "peer", "status", "deadline", "settled_at"),
        ("status",),
        ("=call_id", "=peer", "=session__session_id"),
    ),
    EarlyResponse: (("call_id", "workspace", "peer", "received_at"), (), ("=call_id", "=peer")),
    IntegrityCheck: (
        ("workspace", "reached_at", "finished", "sessions", "rows", "problems"),
        ("finished",),
        ("workspace__slug",),
    ),
    ImportedFile: (("workspace", "format", "size", "live", "read_at"), ("format", "live"), ("workspace__slug",)),
    Blob: (("digest", "session", "type", "compressed"), ("type",), ("=session__session_id",)),
    FrameworkState: (
        ("state_id", "session", "namespace", "parent_id", "created_at"),
        (),
        ("=state_id", "=run_key", "=session__session_id"),
    ),
    FrameworkWrite: (
        ("channel", "session", "namespace", "state_id", "task_id", "position"),
        (),
        ("=state_id", "=task_id", "=session__session_id"),
    ),
    Workflow: (("workflow_id", "session", "created_at"), (), ("=workflow_id", "=session__session_id")),
    WorkflowStep: (
        ("step_id", "workflow", "position", "function", "generation", "created_at"),
        (),
        ("=step_id", "=function", "=session__session_id"),
    ),
}


def _build_read_only_admin_class(columns: _Names, filters: _Names, searched: _Names) -> type[ReadOnlyAdmin]:
    class LibraryAdmin(ReadOnlyAdmin):
        list_display = columns
        list_filter = filters
        search_fields = searched

    return LibraryAdmin


for _model, _lists in _COLUMNS.items():
    admin.site.register(_model, _build_read_only_admin_class(*_lists))
