// The forms of a page that record decisions: about one call, or about several.

const FIELDS = "textarea, select, input[type='text'], input[type='file'], input:not([type]), input[data-stored]";

/** Return the form about one call, if the page has one. */
export const findForm = () => document.querySelector("form[data-decide]");

/** Return the form of the page that records decisions; null if there are several. */
export function onlyForm() {
  const forms = document.querySelectorAll("main form:is([data-decide], [data-decide-several])");
  return forms.length === 1 ? forms[0] : null;
}

/** Return whether the reader has begun to fill in a form: chosen an answer, typed a text or added a file. */
export function hasInput(decide) {
  const chosen = decide.querySelector("input[name='kind']:checked");
  const isChosenByReader = chosen && (!chosen.defaultChecked || chosen.autofocus); // not the only answer, which the page has chosen
  return isChosenByReader || decide.hasAttribute("data-sent") || [...decide.querySelectorAll(FIELDS)].some(isFilledIn);
}

/** Return whether the reader has typed a text or added a file, not only chosen an answer. */
export function hasText(decide) {
  const isEdit = decide.querySelector("input[name='kind']:checked")?.value === "edit";
  return [...decide.querySelectorAll(FIELDS)].some((field) => isFilledIn(field) || (isTyped(field) && (isEdit || !field.closest(".arguments"))));
}

/** Return whether the reader has typed the text of a field: the initial values of a form that was sent were typed too. */
export function isTyped(field) {
  return isFilledIn(field) || (field.form.hasAttribute("data-sent") && field.value !== "");
}

function isFilledIn(field) {
  return field.matches("select") ? !field.selectedOptions[0]?.defaultSelected : field.value !== field.defaultValue;
}
