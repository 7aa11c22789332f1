// Errors of a form disappear when their fields are filled in, and a link beside the button leads to the first one left.

import { gettext } from "../translations.js";
import { hasOtherAnswer } from "./several_calls.js";

/** Remove the errors of fields that have been filled in, and the remark beside the button once no error is left. */
export function removeMendedErrors(form, field) {
  if (!field.value) return;
  // The value of some fields also counts for others that are empty, unless it is about another answer than theirs.
  const isShared = (each) => field.dataset.default && each.name.endsWith(field.dataset.default) && !each.value && !hasOtherAnswer(form, each);
  // The answer for a call is also one of those that the form asks for.
  const isMendedBy = (each) => isShared(each) || (each.name === "shared-answer" && field.closest("li .answer"));
  const others = [...form.elements].filter(isMendedBy);
  for (const mended of [field, ...others]) removeErrors(form, mended);
  const left = [...form.querySelectorAll(".errorlist li")].some((each) => each.checkVisibility());
  if (!left) form.querySelector(".problem:not([data-connection])")?.remove();
  else linkFirstError(form);
}

/** Lead to the first error that is left by the link beside the button; name it, and how many there are, if the link does. */
function linkFirstError(form) {
  const link = form.querySelector("[data-first-error]");
  const errors = [...form.querySelectorAll(".errorlist li")].filter((each) => each.checkVisibility());
  const [error] = errors;
  if (!link || !error) return;
  link.href = `#${error.closest(".field").querySelector("input, textarea, select").id}`;
  const count = form.querySelector("[data-error-count]");
  if (!count) return;
  count.textContent = errors.length > 1 ? gettext("First of %(count)s:", { count: errors.length }) : "";
  link.textContent = error.textContent;
}

/**
 * Show the error of an answer without a text, which nobody has to ask the server for: what its reader types meanwhile would be
 * lost when the response replaces the form. Return whether a text is missing.
 */
export function showMissingText(form) {
  const field = [...form.querySelectorAll("textarea[data-missing]")].find((each) => !each.value.trim() && each.checkVisibility());
  if (!field) return false;
  removeErrors(form, field);
  const errors = document.createElement("ul");
  errors.className = "errorlist";
  errors.id = `${field.id}_error`;
  errors.append(document.createElement("li"));
  errors.firstChild.textContent = field.dataset.missing;
  field.after(errors);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", errors.id);
  field.focus();
  return true;
}

function removeErrors(form, field) {
  const place = field.closest(field.name === "kind" ? "fieldset" : ".field");
  if (!place?.querySelector(".errorlist")) return;
  for (const list of place.querySelectorAll(field.name === "kind" ? "#kind-errors .errorlist" : ".errorlist")) list.remove();
  for (const each of form.elements) if (each.name === field.name) each.removeAttribute("aria-invalid");
}

/** Mark the fields of edited arguments whose preview has an error below them, and those that have none any more. */
export function markInvalidArguments(form) {
  const json = form.querySelector(".as-json textarea");
  if (form.querySelector("#args-errors") && json.checkVisibility()) json.setAttribute("aria-invalid", "true");
  else json?.removeAttribute("aria-invalid");
  for (const place of form.querySelectorAll(".by-field .field")) {
    const field = place.querySelector("input, textarea, select");
    if (place.querySelector(".errorlist")) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
}
