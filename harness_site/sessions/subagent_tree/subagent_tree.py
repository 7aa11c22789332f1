"""Tree of a session and its subagents, with sums."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from checkpoints.models import Session
from harness_site.core.unreadable_rows_and_quarantine import filter_out_unreadable_records
from harness_site.sessions.money_and_count_formatting import count_common_decimal_places
from harness_site.sessions.selectors import session_rows
from harness_site.sessions.selectors.session_rows import SessionRow

#: Levels above and below a session, and sessions of one tree, that are loaded.
MAX_LEVELS: Final = 12
MAX_SESSIONS: Final = 300


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A session at `depth` below the root. The sums include all its subagents; the cost is None if none is known,
    and at least the sum if `has_unknown_cost`."""

    row: SessionRow
    depth: int
    subagents: int
    tokens: int
    cost: Decimal | None
    has_unknown_cost: bool
    #: Whether another session of the tree has the same title.
    has_title_of_another: bool = False

    @property
    def id_below_parent(self) -> str:
        """Return the id without that of its parent, with which many begin."""
        return self.row.session_id.rpartition("/")[2] or self.row.session_id


@dataclass(frozen=True, slots=True)
class SessionTree:
    """The nodes from the root down, each before its subagents, which are in order of their start.

    Those whose start is unknown come last. `is_complete` is False if there are more subagents.
    """

    nodes: tuple[TreeNode, ...]
    is_complete: bool

    @property
    def has_costs(self) -> bool:
        """Return whether the cost of any session is known."""
        return any(node.row.cost is not None for node in self.nodes)

    @property
    def cost_decimal_places(self) -> int:
        """Return the number of decimal places that all costs have, so that they align."""
        return count_common_decimal_places(cost for node in self.nodes for cost in (node.row.cost, node.cost))


def find_parent_session(session: Session) -> Session | None:
    """Return the session that started this one as its subagent; None if none did or it is not stored."""
    if not session.parent_session_id:
        return None
    sessions = Session.objects.filter(workspace=session.workspace_id, session_id=session.parent_session_id)
    return sessions.only("session_id", "title", "parent_session_id", "workspace_id", "metadata").first()


def has_subagents(session: Session) -> bool:
    return Session.objects.filter(workspace=session.workspace_id, parent_session_id=session.session_id).exists()


def load_subagent_session_pks_by_call(session: Session, links: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the key of the stored session that each call started, by call id. `links` are session ids and call ids."""
    calls = dict(list(links)[:MAX_SESSIONS])
    if not calls:
        return {}
    stored = Session.objects.filter(workspace=session.workspace_id, session_id__in=calls)
    return {calls[session_id]: pk for session_id, pk in stored.values_list("session_id", "pk")}


def load_session_tree(session: Session) -> SessionTree:
    """Load the tree that a session belongs to, with one query for each level."""
    root = _find_root_session(session)
    children: defaultdict[str, list[int]] = defaultdict(list)
    ids = {root.pk: root.session_id}
    level, is_complete = [root.session_id], True
    for _ in range(MAX_LEVELS):
        stored = Session.objects.filter(workspace=session.workspace_id, parent_session_id__in=level).order_by("pk")
        rows = stored.values_list("pk", "session_id", "parent_session_id")[: MAX_SESSIONS - len(ids) + 1]
        found = [row for row in rows if row[0] not in ids]
        if len(ids) + len(found) > MAX_SESSIONS:
            found, is_complete = found[: MAX_SESSIONS - len(ids)], False
        level = []
        for pk, session_id, parent in found:
            children[parent].append(pk)
            ids[pk] = session_id
            level.append(session_id)
        if not level or not is_complete:
            break
    loaded = session_rows.load_session_rows_in_order_of_pks(session.workspace_id, tuple(ids))
    known = {row.pk: row for row in filter_out_unreadable_records(loaded)}
    nodes = list(_iterate_subtree_nodes(root.pk, 0, known, children))
    titles = Counter(node.row.title for node in nodes if node.row.title)
    return SessionTree(
        tuple(replace(node, has_title_of_another=titles[node.row.title] > 1) for node in nodes), is_complete
    )


def _find_root_session(session: Session) -> Session:
    seen = {session.pk}
    for _ in range(MAX_LEVELS):
        parent = find_parent_session(session)
        if parent is None or parent.pk in seen:
            break
        seen.add(parent.pk)
        session = parent
    return session


def _get_sort_key_of_start(row: SessionRow | None) -> tuple[bool, float, int]:
    """Return the key that sorts by start, those with an unknown one last."""
    if row is None or not row.has_times:
        return True, 0.0, 0 if row is None else row.pk
    return False, row.created_at.timestamp(), row.pk


def _iterate_subtree_nodes(
    pk: int, depth: int, known: dict[int, SessionRow], children: dict[str, list[int]]
) -> Iterator[TreeNode]:
    row = known.get(pk)
    if row is None:
        return
    below = [
        node
        for child in sorted(
            children.get(row.session_id, ()), key=lambda child: _get_sort_key_of_start(known.get(child))
        )
        for node in _iterate_subtree_nodes(child, depth + 1, known, children)
    ]
    rows = [row, *(node.row for node in below)]
    costs = [each.cost for each in rows if each.cost is not None]
    yield TreeNode(
        row,
        depth,
        len(below),
        sum(each.tokens for each in rows),
        sum(costs, Decimal()) if costs else None,
        0 < len(costs) < len(rows),
    )
    yield from below
