"""Invitations that entries of the audit trail are about: for whom, and with which role.

The trail itself has only their keys: an address or a note of a person cannot be deleted from it.
"""

from collections.abc import Iterable

from checkpoints.enums import AuditKind
from harness_site.accounts.models import Invitation
from harness_site.audit.audit_trail_query import AuditEntry
from harness_site.audit.folded_entry_pages import EntryRow

#: Kinds of the entries that are about an invitation.
INVITATION_KINDS = frozenset({AuditKind.INVITED, AuditKind.INVITATION_REVOKED})


def load_invitations_of_entries(workspace_pk: int, rows: Iterable[EntryRow]) -> dict[int, Invitation]:
    """Map the key of each entry about an invitation that still exists to that invitation, in at most one query."""
    invitation_pks = {
        entry.pk: entry.details.get("invitation")
        for row in rows
        for entry in row.entries
        if isinstance(entry, AuditEntry) and entry.kind in INVITATION_KINDS
    }
    wanted = {pk for pk in invitation_pks.values() if isinstance(pk, int)}
    if not wanted:
        return {}
    invitations = Invitation.objects.filter(workspace=workspace_pk).in_bulk(wanted)
    return {entry: invitations[pk] for entry, pk in invitation_pks.items() if pk in invitations}
