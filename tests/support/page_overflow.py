"""Elements that overflow the window at several screen widths.

The width of a text depends on the fonts of a machine. Therefore each width is tried with the maximum letter and word
spacing that a reader may set (WCAG 2.2, 1.4.12), which is wider than any font. An exhaustive run also has the spacing
of the style sheets, and the width of a larger phone, which no style sheet distinguishes from that of a smaller one.
"""

from typing import Final

from playwright.sync_api import Page

from tests.support.exhaustive_mode import EXHAUSTIVE

WIDTHS: Final = (1440, 390, 320) if EXHAUSTIVE else (1440, 320)
_WIDE_SPACING: Final = "* { letter-spacing: 0.12em !important; word-spacing: 0.16em !important }"
_SPACINGS: Final = {**({"": ""} if EXHAUSTIVE else {}), ", wide spacing": _WIDE_SPACING}
_APPLY_STYLES: Final = """
    (rules) => {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(rules);
        document.adoptedStyleSheets = [sheet];
    }
"""
#: Innermost elements that reach beyond the window and are not in a scrollable element.
_FIND_OVERFLOW: Final = """
    () => {
        const root = document.scrollingElement;
        if (root.scrollWidth <= root.clientWidth) return [];
        const reaches = (element) => element.getBoundingClientRect().right > root.clientWidth + 0.5;
        const clips = (element) => getComputedStyle(element).overflowX !== "visible";
        const free = (element) => !element || element === root || (!clips(element) && free(element.parentElement));
        const out = [...document.body.querySelectorAll("*")].filter((one) => reaches(one) && free(one.parentElement));
        const inner = out.filter((one) => !out.some((other) => other !== one && one.contains(other)));
        return [`${root.scrollWidth} px`, ...inner.map((one) => one.outerHTML.slice(0, 120))];
    }
"""


def overflowing_elements(page: Page) -> list[str]:
    """Return one line for each width at which the page scrolls horizontally."""
    lines = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        lines += [f"{width} px wide{overflow}" for overflow in list_overflows_at_width(page)]
    return lines


def list_overflows_at_width(page: Page) -> list[str]:
    """Return one line for each spacing of letters with which the page scrolls horizontally at its present width."""
    lines = []
    for spacing, rules in _SPACINGS.items():
        page.evaluate(_APPLY_STYLES, rules)
        if overflow := page.evaluate(_FIND_OVERFLOW):
            lines.append(f"{spacing}: {'; '.join(overflow)}")
    page.evaluate(_APPLY_STYLES, "")
    return lines
