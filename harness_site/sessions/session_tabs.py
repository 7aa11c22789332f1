"""Tabs of a session: its pages, those first that readers open most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

from harness_site.core.cached_urls import get_page_path
from harness_site.sessions.selectors.session_head import SessionHead

#: Number of tabs for which a phone has room beside a menu.
_FIRST: Final = 3


@dataclass(frozen=True, slots=True)
class SessionTab:
    """A tab; `count` is the number that follows its label, None without one."""

    key: str
    label: str
    address: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class SessionTabs:
    """Tabs of a session. On a phone, `others` are in a menu, whose button has the `label` of the open one."""

    first: list[SessionTab]
    others: list[SessionTab]
    label: str


def build_session_tabs(head: SessionHead, open_tab: str, *, has_subagent_tree: bool) -> SessionTabs:
    """Build the tabs of a session; those of subagents, workflows and peers only where there are some."""
    row, requests = head.row, head.peer_calls + (head.asking_call is not None)
    tabs = [
        ("transcript", _("Transcript"), "session", row.messages or None),
        ("timeline", _("Timeline"), "session-timeline", None),
        ("versions", _("Versions"), "versions", head.versions),
        ("calls", _("Logged calls"), "calls", head.calls - head.count_copied_calls_after_fork_version()),
        ("files", _("Files"), "session-files", None),
        ("costs", _("Cost and tokens"), "session-costs", None),
        *([("subagents", _("Subagents"), "session-subagents", None)] if has_subagent_tree else ()),
        *([("workflows", _("Workflows"), "session-workflows", None)] if head.has_workflows else ()),
        *([("peers", _("Peers"), "session-peers", requests or None)] if head.has_pauses or head.asking_call else ()),
        ("plan", _("Plan"), "plan", None),
        ("history", _("History"), "session-audit", None),
    ]
    built = [
        SessionTab(key, label, get_page_path(f"harness_sessions:{view}", row.pk), count)
        for key, label, view, count in tabs
    ]
    label = next((tab.label for tab in built[_FIRST:] if tab.key == open_tab), "")
    # The label of an open tab takes the place of one more.
    shown = _FIRST - 1 if label else _FIRST
    return SessionTabs(built[:shown], built[shown:], label)
