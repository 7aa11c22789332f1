// Folded parts of a page that have a text to fill in, such as the form of a comment.

const FOLDED_TEXTS = "form:is([data-withdraw], [data-restore], [data-comment]) textarea, .sign-off .attach input[name='evidence'], .form-fold input:not([type='hidden'])";

/** Return the visible text field for which a part of the page was unfolded, if any. */
export function findUnfoldedText(fold) {
  return [...fold.querySelectorAll(FOLDED_TEXTS)].find((each) => each.checkVisibility());
}

/** Return whether a part of the page is folded that has such a text field. */
export function isFoldOfText(fold) {
  return Boolean(fold?.matches("details:not([open])") && fold.querySelector(FOLDED_TEXTS));
}

/** Return whether an element is the title or a button of an unfolded text, which its reader is about to type. */
export function isBesideUnfoldedText(element) {
  const fold = element.closest?.("summary, button")?.closest("details[open]");
  return Boolean(fold && findUnfoldedText(fold));
}
