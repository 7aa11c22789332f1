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

/** Scroll back to an answer that has left the window: the fields of the one chosen before, which fold, stood above it. */
export function keepInView(option) {
  const row = option.closest(".opt");
  if (row && row.getBoundingClientRect().top < 0) row.scrollIntoView({ block: "nearest", behavior: "instant" });
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
  const place = field.closest("fieldset, .field");
  // In a table, a field has no box of its own: what is said about it stands below its row.
  const shown = place?.checkVisibility() === false ? place.closest(".argument-row") : place;
  (shown ?? field).scrollIntoView({ block: "nearest" });
}

/** Focus what comes after a recorded decision: the link to the next call, which the heading describes, else the heading. */
export function focusWhatFollows() {
  const following = ["a[data-next]", "h1"].flatMap((each) => [...document.querySelectorAll(`main ${each}`)]);
  following.find((each) => each.checkVisibility())?.focus({ preventScroll: true });
}
