// The forms of a page that record decisions: about one call, or about several.

const FIELDS = "textarea, select, input[type='text'], input[type='file'], input:not([type])";

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
  const isSent = decide.hasAttribute("data-sent"); // its initial values were typed too
  const isEdit = decide.querySelector("input[name='kind']:checked")?.value === "edit";
  const wasTyped = (field) => isSent && field.value !== "" && (isEdit || !field.closest(".arguments"));
  return [...decide.querySelectorAll(FIELDS)].some((field) => isFilledIn(field) || wasTyped(field));
}

function isFilledIn(field) {
  return field.matches("select") ? !field.selectedOptions[0]?.defaultSelected : field.value !== field.defaultValue;
}
