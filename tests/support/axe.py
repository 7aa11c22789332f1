"""Accessibility checks with axe-core, which is stored in `vendor/` with its licence and digest."""

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Page, expect

from tests.support.exhaustive_mode import EXHAUSTIVE

_VENDOR = Path(__file__).parent / "vendor"
Theme = Literal["light", "dark"]
#: Checks per theme: the themes differ in colours only.
_ASKED: Final[dict[Theme, dict[str, Any]]] = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "dark": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}


@cache
def _read_verified_axe_source() -> str:
    for entry in json.loads((_VENDOR / "VENDOR.json").read_text()):
        if hashlib.sha256((_VENDOR / entry["file"]).read_bytes()).hexdigest() != entry["sha256"]:
            raise ValueError(f"{entry['file']} is not the file that VENDOR.json names.")
    return (_VENDOR / "axe.min.js").read_text()


def list_accessibility_violations(page: Page, themes: Sequence[Theme] = ("light", "dark")) -> list[str]:
    """Return the accessibility violations of a page in each theme: one line for each rule and element.

    A button is dimmed while its form is sent, so the page is checked when no request is under way.
    """
    expect(page.locator(".htmx-request")).to_have_count(0)
    page.evaluate(_read_verified_axe_source())
    lines = [f"{theme}: {violation}" for theme in themes for violation in _list_violations_in_theme(page, theme)]
    page.emulate_media(color_scheme="null")
    return lines


def choose_themes(number: int) -> Sequence[Theme]:
    """Choose the themes of the page with this number in a list of pages: both for every second page.

    Pages have the colours of both themes from the same style sheets. In an exhaustive run, all have both.
    """
    return ("light", "dark") if EXHAUSTIVE or number % 2 == 0 else ("light",)


def _list_violations_in_theme(page: Page, theme: Theme) -> list[str]:
    page.emulate_media(color_scheme=theme)
    options = {"runOnly": _ASKED[theme], "resultTypes": ["violations"]}
    result = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['html'][:200]}"
        for rule in result["violations"]
        for node in rule["nodes"]
    ]
