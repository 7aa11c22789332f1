"""Masking settings of a workspace, and the masking rules built from them."""

from __future__ import annotations

from checkpoints.models import Workspace
from harness_site.accounts.models import MaskingSettings
from harness_site.core.masking import masker


def load_masking_settings_or_defaults(workspace: Workspace) -> MaskingSettings:
    """Return the masking settings of a workspace, or unsaved defaults."""
    stored: MaskingSettings | None = getattr(workspace, "masking", None)
    return stored or MaskingSettings(workspace=workspace)


def load_workspace_masking_rules(workspace: Workspace) -> masker.MaskingRules:
    masking = load_masking_settings_or_defaults(workspace)
    return masker.build_masking_rules_from_names_and_words(
        _split_nonempty_lines(masking.names), _split_nonempty_lines(masking.words), usual=masking.usual
    )


def _split_nonempty_lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())
