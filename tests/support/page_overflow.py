"""Elements that overflow the window at several screen widths.

The width of a text depends on the fonts of a machine. Therefore each width is repeated with the maximum letter and word
spacing that a reader may set (WCAG 2.2, 1.4.12), which is wider than any font.
"""

from typing import Final

from playwright.sync_api import Page

WIDTHS: Final = (1440, 390, 320)
_WIDE_SPACING: Final = "* { letter-spacing: 0.12em !important; word-spacing: 0.16em !important }"
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
        for spacing, rules in (("", ""), (", wide spacing", _WIDE_SPACING)):
            page.evaluate(_APPLY_STYLES, rules)
            if overflow := page.evaluate(_FIND_OVERFLOW):
                lines.append(f"{width} px wide{spacing}: {'; '.join(overflow)}")
    page.evaluate(_APPLY_STYLES, "")
    return lines
