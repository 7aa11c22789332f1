// A closed fold is printed with its content (layout.css). What would fill more than a page, or is loaded when its fold is
// opened, is left out, and paper says so; what the reader has opened is printed in full.

import { gettext, ngettext } from "./translations.js";

const MOST_LINES = 40;
const MOST_CHARACTERS = 3000;

/** Return about how many lines an element has, from its content: a closed fold has no layout. */
function countLines(element) {
  const texts = [...element.querySelectorAll("pre")].concat(element.matches("pre") ? [element] : []);
  const lines = texts.filter((text) => !text.dataset.leftOut).map((text) => text.textContent.trimEnd().split("\n").length);
  return lines.reduce((sum, number) => sum + number, element.querySelectorAll("p, dt, li, tr, .line").length);
}

function countCharacters(element) {
  const leftOut = [...element.querySelectorAll("[data-left-out]")].map((each) => each.textContent.trim().length);
  return leftOut.reduce((rest, number) => rest - number, element.textContent.trim().length);
}

const isLong = (element) => countLines(element) > MOST_LINES || countCharacters(element) > MOST_CHARACTERS;

const describeLeftOut = (lines) => ngettext("Not printed: %(count)s line. Open this part on the page to print it.", "Not printed: %(count)s lines. Open this part on the page to print it.", lines);

/** Mark the long texts of a closed fold, then the fold if the rest is long or not loaded. */
function markWhatIsLeftOut(fold) {
  const summary = fold.querySelector(":scope > summary");
  if (!summary) return;
  if (fold.matches("[hx-get][hx-trigger^='toggle']")) {
    summary.dataset.leftOut = gettext("Not printed. Open this part on the page to print it.");
    return;
  }
  for (const text of fold.querySelectorAll("pre")) if (isLong(text)) text.dataset.leftOut = describeLeftOut(countLines(text));
  if (isLong(fold)) summary.dataset.leftOut = describeLeftOut(countLines(fold));
}

let openedForPaper = []; // by a browser whose style sheets cannot show what is folded

addEventListener("beforeprint", () => {
  const folds = [...document.querySelectorAll("details:not([open], .menu, .recording, :has(> form))")].reverse(); // the inner ones first
  for (const fold of folds) markWhatIsLeftOut(fold);
  if (CSS.supports("selector(::details-content)")) return;
  openedForPaper = folds.filter((fold) => !fold.matches(":has(> summary[data-left-out])"));
  for (const fold of openedForPaper) fold.open = true;
});

addEventListener("afterprint", () => {
  for (const fold of openedForPaper) fold.open = false;
  openedForPaper = [];
  for (const marked of document.querySelectorAll("[data-left-out]")) delete marked.dataset.leftOut;
});
