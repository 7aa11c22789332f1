"""Words for the details and the actors of audit events, in the language and the time zone of the reader."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import ActorKind, InterruptReason, Role
from checkpoints.models.translated_enum_choices import translate_label
from harness_site.accounts.models import FactorScope
from harness_site.core import formatting, status_and_decision_labels
from harness_site.core.rendering import json_tree
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.templatetags.harness_tags import render_time

_NAMES: Final[dict[str, Promise]] = {
    "added": _("added"),
    "address": _("IP address"),
    "after": _("after"),
    "args_digest": _("fingerprint of the arguments"),
    "args_restored": _("original arguments restored"),
    "attempt": _("attempt"),
    "before": _("before"),
    "call_id": _("call id"),
    "checked": _("entries checked"),
    "comment": _("number of the comment"),
    "decision": _("decision"),
    "ended": _("sign-ins ended"),
    "error_type": _("type of the error"),
    "events": _("events"),
    "factor": _("second factor"),
    "fields": _("fields"),
    "file": _("file"),
    "flaws": _("entries that are not intact"),
    "forked": _("fork"),
    "form": _("format"),
    "format": _("format"),
    "host": _("host"),
    "idle_seconds": _("time without activity"),
    "invitation": _("invitation"),
    "join": _("join"),
    "key": _("key"),
    "label": _("label"),
    "last_seen": _("last sign of life"),
    "member": _("member"),
    "message": _("message"),
    "messages": _("messages"),
    "methods": _("signed in with"),
    "minutes": _("minutes"),
    "name": _("name"),
    "origin": _("origin"),
    "page": _("page"),
    "path": _("path"),
    "pause": _("pause"),
    "peer": _("other agent"),
    "peer_call": _("call of the other agent"),
    "pid": _("process id"),
    "prices": _("price table"),
    "reason": _("reason"),
    "removed": _("removed"),
    "required_before": _("required before of"),
    "required_of": _("required of"),
    "role": _("role"),
    "rows": _("rows"),
    "session_id": _("session"),
    "status": _("status"),
    "step": _("version"),
    "taken_by": _("taken by"),
    "to_member": _("handed to"),
    "token_name": _("API token"),
    "tool": _("tool"),
    "version": _("version"),
    "versions": _("versions"),
    "webhook": _("webhook"),
    "what": _("content"),
    "why": _("reason"),
    "without_factor": _("members without a second factor"),
    "words": _("number of search words"),
}
#: Format of an export of a session → its name in the menu of exports.
_EXPORT_FORMATS: Final[dict[str, Promise]] = {
    "file": _("Session file"),
    "html": _("Page to read offline"),
    "jsonl": _("Records"),
    "print": _("Page to print"),
}
#: Content of an export → its name.
_EXPORTED: Final[dict[str, Promise]] = {
    "audit trail": _("Audit trail"),
    "session": _("Whole session"),
    "sessions": _("Sessions"),
    "tool calls": _("Tool calls"),
}
#: Page on which excerpts were shown → its name.
_PAGES: Final[dict[str, Promise]] = {
    "audit": _("Audit"),
    "bulk decision": _("Bulk decision"),
    "card": _("Decision page"),
    "news": _("Notifications"),
    "outage": _("Outage"),
    "overview": _("Overview"),
    "review queue": _("Review"),
    "same approvals": _("Approvals of one tool"),
    "search": _("Search"),
    "tool calls": _("Tool calls"),
}
_STATUS_DETAILS: Final = frozenset({"status", "decision"})
_ROLE_DETAILS: Final = frozenset({"role", "before"})
_SCOPE_DETAILS: Final = frozenset({"required_before", "required_of"})
_METHOD_DETAILS: Final = frozenset({"methods", "factor"})
_METHODS: Final[dict[str, Promise]] = {
    "password": _("password"),
    "recovery_codes": _("recovery code"),
    "sign-in link": _("sign-in link"),
    "single sign-on": _("single sign-on"),
    "totp": _("code of an authenticator app"),
    "webauthn": _("passkey"),
}
#: Actor of what the library does by itself → its name.
_MACHINES: Final[dict[str, Promise]] = {
    "manage.py create_token": _("the command create_token"),
    "gate": _("Harness"),
    "peers": _("other agents"),
    "retention": _("the clean-up of old versions"),
    "sweeper": _("the sweeper"),
    "unknown run": _("an unknown run"),
}
_RUN: Final = re.compile(r"run (\d+)")
_VERIFY_HOOK: Final = "verify hook of "
_RUN_NAME: Final = _("run %(number)s")
_HOOK_NAME: Final = _("the tool’s own check (%(tool)s)")
#: Shortest length of a timestamp with a time zone.
_ISO: Final = len("2026-01-01T00:00:00+00:00")


def mask_and_format_detail_name(key: str) -> str:
    """Return the words for the name of a detail; those of a newer version are returned with spaces."""
    return str(_NAMES[key]) if key in _NAMES else mask_and_reveal_hidden(key.replace("_", " "))


def mask_and_format_detail_value(value: Any, key: str = "") -> str:
    """Format a detail for display, masked: a time in the reader's zone, known words in the reader's language.

    Args:
        value: The value from the JSON of the event.
        key: The name of the detail, which says what kind of word the value is.

    Returns:
        Text, or HTML that is marked as safe.
    """
    if key == "idle_seconds" and isinstance(value, int | float) and value >= 0:
        return formatting.format_duration(value)
    if key == "step" and isinstance(value, int) and value < 0:
        return str(_("copied from the original"))  # a fork numbers the copied calls in a range of their own
    if not isinstance(value, str):
        return json_tree.mask_and_dump_json(value)
    if (word := _find_value_label(value, key)) is not None:
        return str(word)
    moment = _parse_iso_time(value)
    return mask_and_reveal_hidden(value) if moment is None else render_time(moment)


def mask_and_format_actor(name: str, kind: str, *, is_first_word: bool = False) -> str:
    """Return the name of an actor, masked: a run, a verify hook or a part of the product in the reader's language.

    Args:
        name: The recorded name, such as `run 2` or `verify hook of pay`.
        kind: The recorded kind; the names of people, API tokens and agents are returned as they are.
        is_first_word: True if a sentence begins with the name, so that words of a language have a capital letter.
    """
    words = _find_words_for_hook_or_machine(name, kind)
    if words is None:
        return mask_and_reveal_hidden(name)
    return capfirst(words) if is_first_word else words


def _find_words_for_hook_or_machine(name: str, kind: str) -> str | None:
    if kind == ActorKind.HOOK and name.startswith(_VERIFY_HOOK):
        return _HOOK_NAME % {"tool": mask_and_reveal_hidden(name.removeprefix(_VERIFY_HOOK))}
    if kind == ActorKind.MACHINE:
        if run := _RUN.fullmatch(name):
            return _RUN_NAME % {"number": run[1]}
        if name in _MACHINES:
            return str(_MACHINES[name])
    return None


def list_values_with_word_in_label(word: str) -> frozenset[str]:
    """List the values of details whose label in the current language has a word, which is in folded case."""
    labels: list[tuple[str, object]] = [
        (value, label)
        for named in (status_and_decision_labels.STATES, status_and_decision_labels.QUESTION_ANSWERS)
        for value, (_shape, label) in named.items()
    ]
    for words in (_PAGES, _EXPORT_FORMATS, _EXPORTED, _METHODS):
        labels += words.items()
    labels += [(role.value, translate_label(role)) for role in Role]
    labels += [(scope.value, scope.label) for scope in FactorScope]
    labels += [(reason.value, translate_label(reason)) for reason in InterruptReason]
    return frozenset(value for value, label in labels if word in str(label).casefold())


def list_machines_with_word_in_name(word: str) -> frozenset[str]:
    """List the recorded names of machines whose name in the current language has a word, which is in folded case."""
    return frozenset(name for name, words in _MACHINES.items() if word in str(words).casefold())


def list_beginnings_of_actors_with_word(word: str) -> frozenset[str]:
    """List how the names of runs and of verify hooks begin, if their words in the current language have a word."""
    names = (("run ", _RUN_NAME % {"number": "\n"}), (_VERIFY_HOOK, _HOOK_NAME % {"tool": "\n"}))
    return frozenset(beginning for beginning, words in names if word in str(words).casefold())


def list_shown_detail_names_and_values(
    details: Mapping[str, Any], hidden: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    """Return the words for the names and values of the details, without those that are `hidden` or None."""
    return [
        (mask_and_format_detail_name(key), mask_and_format_detail_value(value, key))
        for key, value in details.items()
        if key not in hidden and value is not None
    ]


def _find_value_label(value: str, key: str) -> str | Promise | None:
    for words_key, words in (("page", _PAGES), ("form", _EXPORT_FORMATS), ("what", _EXPORTED)):
        if key == words_key:
            return words.get(value)
    if key in _STATUS_DETAILS:
        return status_and_decision_labels.get_status_shape_and_label(value)[1]
    if key in _ROLE_DETAILS and value in Role.values:
        return translate_label(Role(value))
    if key in _SCOPE_DETAILS and value in FactorScope.values:
        return FactorScope(value).label
    if key == "reason" and value in InterruptReason.values:
        return translate_label(InterruptReason(value))
    if key in _METHOD_DETAILS and all(method in _METHODS for method in value.split(", ")):
        return ", ".join(str(_METHODS[method]) for method in value.split(", "))
    return None


def _parse_iso_time(value: str) -> datetime | None:
    if len(value) < _ISO:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
