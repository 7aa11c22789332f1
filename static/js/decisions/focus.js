// Where the focus goes: to the text that an answer needs, to an error, or to what follows a recorded decision.

/** Return the visible field that only this answer has, if any. */
export function findOwnField(option) {
  const ownFields = option.closest(".opt").nextElementSibling?.querySelectorAll("textarea, select, input:not([type='radio'])") ?? [];
  return [...ownFields].find((each) => each.checkVisibility());
}

/** Focus the field that an answer needs, so that the next letters are typed there. */
export function focusNeededField(option) {
  const own = findOwnField(option);
  if (option.value.startsWith("option-")) return option.focus(); // it needs no text
  const { reason } = option.form.elements;
  const needed = own && (option.value === "edit" || !own.value || !reason.checkVisibility()) ? own : reason;
  needed.focus();
}

// Texts for which parts of a page are unfolded.
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

export function isLinkToFormVisible() {
  return document.querySelector(".to-decision")?.checkVisibility() ?? false;
}

export function isInSight(element) {
  return element !== undefined && element.getBoundingClientRect().bottom <= window.innerHeight;
}

/** Focus the first invalid field, and scroll it into view. */
export function focusInvalid(form) {
  const invalid = form.dataset.invalid;
  if (!invalid) return;
  const fields = form.querySelectorAll(`[name="${CSS.escape(invalid)}"], .arguments [name^="argument-"]`);
  const field = [...fields].find((each) => each.name === invalid && each.checkVisibility()) ?? [...fields].find((each) => each.checkVisibility());
  if (!field) return;
  field.focus({ preventScroll: true });
  (field.closest("fieldset, .field") ?? field).scrollIntoView({ block: "nearest" });
}

/** Focus what comes after a recorded decision: the link to the next call, which the heading describes, else the heading. */
export function focusWhatFollows() {
  const following = ["a[data-next]", "h1"].flatMap((each) => [...document.querySelectorAll(`main ${each}`)]);
  following.find((each) => each.checkVisibility())?.focus({ preventScroll: true });
}
