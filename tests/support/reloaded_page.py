"""Comparison of a page that live updates have changed with the same page loaded again."""

from difflib import unified_diff
from typing import Final

from playwright.sync_api import Page

#: Returns the texts in `main` on the screen, and those of the page that the server renders now. Left out is what goes
#: its own way: times and durations, what was typed, what only scripts or paper show, and the link to the next call of
#: the reader's list.
_TEXTS_NOW_AND_RELOADED: Final = """async () => {
  const leftOut =
    "noscript, script, template, [hidden], time, textarea, option, .only-on-paper, .onward, .new-messages";
  const listTexts = (page) => {
    const walker = page.createTreeWalker(page.getElementById("main"), NodeFilter.SHOW_TEXT), texts = [];
    while (walker.nextNode()) {
      const written = walker.currentNode.textContent.replace(/\\s+/g, " ").trim();
      const text = written.replace(/\\b[\\d.]+ (ms|s|min)\\b/g, "duration");
      if (text && !walker.currentNode.parentElement.closest(leftOut)) texts.push(text);
    }
    return texts;
  };
  const response = await fetch(location.href, { cache: "no-store" });
  return [listTexts(document), listTexts(new DOMParser().parseFromString(await response.text(), "text/html"))];
}"""


#: How often, and after how many milliseconds, a page is compared again that an update has not reached yet.
_ATTEMPTS: Final = 60
_PAUSE_MS: Final = 500


def expect_to_be_as_reloaded(page: Page) -> None:
    """Expect that a page has the texts that it would have if it was loaded again."""
    differences = ""
    for _ in range(_ATTEMPTS):
        now, reloaded = page.evaluate(_TEXTS_NOW_AND_RELOADED)
        assert now != [], "There is nothing to compare."
        differences = "\n".join(unified_diff(now, reloaded, "on the screen", "loaded again", lineterm="", n=0))
        if not differences:
            return
        page.wait_for_timeout(_PAUSE_MS)
    raise AssertionError(differences)
