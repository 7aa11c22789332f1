"""What sticks out of the window, at the widths of screens.

How wide a text is depends on the fonts of a machine. Therefore each width is tried again with letters and words as far
apart as a reader may set them (WCAG 2.2, 1.4.12), which is wider than any font makes them.
"""

from typing import Final

from playwright.sync_api import Page

WIDTHS: Final = (1440, 390, 320)
_APART: Final = "* { letter-spacing: 0.12em !important; word-spacing: 0.16em !important }"
_PUT: Final = """
    (rules) => {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(rules);
        document.adoptedStyleSheets = [sheet];
    }
"""
#: The innermost elements that reach beyond the window and cannot be scrolled by themselves.
_OUT: Final = """
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


def sticking_out(page: Page) -> list[str]:
    """One line for each width at which the page has to be scrolled sideways."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        for spacing, rules in (("", ""), (", letters apart", _APART)):
            page.evaluate(_PUT, rules)
            if out := page.evaluate(_OUT):
                found.append(f"{width} wide{spacing}: {'; '.join(out)}")
    page.evaluate(_PUT, "")
    return found
