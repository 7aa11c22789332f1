"""axe-core, the checker for accessibility, run in a page. Kept in `vendor/` with its licence and digest."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Page

_VENDOR = Path(__file__).parent / "vendor"
Theme = Literal["light", "dark"]
#: What is asked in which theme: they differ in nothing but colours.
_ASKED: Final[dict[Theme, dict[str, Any]]] = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "dark": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}


@cache
def _source() -> str:
    for entry in json.loads((_VENDOR / "VENDOR.json").read_text()):
        if hashlib.sha256((_VENDOR / entry["file"]).read_bytes()).hexdigest() != entry["sha256"]:
            raise ValueError(f"{entry['file']} is not the file that VENDOR.json names.")
    return (_VENDOR / "axe.min.js").read_text()


def violations(page: Page) -> list[str]:
    """What is wrong in either theme for people who cannot see, point or tell colours apart: one line for each rule and
    element."""
    page.evaluate(_source())
    found = [f"{theme}: {wrong}" for theme in _ASKED for wrong in _violations(page, theme)]
    page.emulate_media(color_scheme="null")
    return found


def _violations(page: Page, theme: Theme) -> list[str]:
    page.emulate_media(color_scheme=theme)
    options = {"runOnly": _ASKED[theme], "resultTypes": ["violations"]}
    found = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['html'][:200]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
