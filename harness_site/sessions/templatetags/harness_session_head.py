"""Tags of the head of a session's pages: where it ran, its parent, and its tabs."""

from dataclasses import dataclass

from django import template

from checkpoints.models import Session
from harness_site.core.masking.mask_argument_secrets_throughout_session import load_known_secrets_of_session
from harness_site.core.masking.masker import use_masking_rules_with_extra_values
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.sessions import session_tabs
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.session_environment import SessionEnvironment, read_session_environment
from harness_site.sessions.session_tabs import SessionTabs
from harness_site.sessions.subagent_tree import subagent_tree

register = template.Library()


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """Facts of a session for the head of its pages. `parent` is the session that it is a subagent of, with its name
    masked for the reader."""

    facts: SessionEnvironment
    parent: Session | None
    parent_name: str
    has_subagents: bool


@register.simple_tag
def load_environment_parent_and_subagent_flag(session: Session) -> HeadFacts:
    """Load where and with what a session ran, and its place among subagents. Only imported sessions need queries."""
    facts = read_session_environment(session)
    parent = subagent_tree.find_parent_session(session)
    has_subagents = facts.is_imported and subagent_tree.has_subagents(session)
    return HeadFacts(facts, parent, "" if parent is None else _mask_name_of_session(parent), has_subagents)


def _mask_name_of_session(session: Session) -> str:
    with use_masking_rules_with_extra_values(load_known_secrets_of_session(session.pk)):
        return mask_and_reveal_hidden(session.title or session.session_id)


@register.simple_tag
def build_session_tabs(head: SessionHead, about: HeadFacts, open_tab: str) -> SessionTabs:
    return session_tabs.build_session_tabs(head, open_tab, has_subagent_tree=bool(about.parent or about.has_subagents))


@register.filter
def mask_and_join_first_values(values: tuple[str, ...]) -> str:
    """Join the first names of a list, masked, with the number of the others. Names may contain commas."""
    shown = "; ".join(mask_and_reveal_hidden(value[:80]) for value in values[:2])
    return f"{shown} +{len(values) - 2}" if len(values) > 2 else shown
