// Errors of a form disappear when their fields are filled in, and a link beside the button leads to the first one left.

import { gettext } from "../translations.js";
import { listMissingFields } from "./missing_fields.js";
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
  if (!left) {
    reported = "";
    form.querySelector(".problem:not([data-connection], [data-approve-later])")?.remove();
  } else linkFirstError(form);
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

/** The form whose missing fields were reported, by its draft or its address: a live update has no errors of them. */
let reported = "";
const nameForm = (form) => form.dataset.draft ?? form.getAttribute("action");

/** Put the error of a field below it; that of a choice below all its options, and that of a selection above the calls. */
function showError({ field, message }) {
  const isChoice = field.matches("[type='radio'], [type='checkbox']");
  const errors = document.createElement("ul");
  errors.className = "errorlist";
  errors.id = `${field.id || field.name}_error`;
  errors.append(document.createElement("li"));
  errors.firstChild.textContent = message;
  if (field.matches("[type='checkbox']")) field.closest("div[data-missing]").before(errors);
  else if (field.name === "kind") {
    const place = document.getElementById("kind-errors") ?? Object.assign(document.createElement("div"), { id: "kind-errors" });
    place.append(errors);
    field.closest("fieldset").append(place);
  } else if (isChoice) field.closest("fieldset").append(errors);
  else field.after(errors);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", errors.id);
}

/** Show errors and the remark beside the button, as an alert unless it `wasRead` to its reader before. */
function showMissing(form, missing, wasRead = false) {
  for (const each of missing) {
    removeErrors(form, each.field);
    showError(each);
  }
  const remark = form.querySelector("template[data-problem]");
  if (!remark) return;
  if (!form.querySelector(".problem:not([data-connection], [data-approve-later])")) {
    const copy = remark.content.cloneNode(true);
    if (wasRead) copy.firstElementChild.removeAttribute("role");
    remark.after(copy);
  }
  linkFirstError(form);
}

/**
 * Show the errors of required fields without a value, which nobody has to ask the server for: what its reader types meanwhile
 * would be lost when the response replaces the form. Return whether one is missing.
 */
export function reportMissingFields(form) {
  const missing = listMissingFields(form);
  reported = missing.length ? nameForm(form) : "";
  if (!missing.length) return false;
  showMissing(form, missing);
  missing[0].field.focus();
  return true;
}

/** Show the errors again that a live update of the page has replaced. */
export function showReportedErrorsAgain() {
  const form = reported && [...document.querySelectorAll("main form")].find((each) => nameForm(each) === reported);
  if (form && !form.querySelector(".errorlist")) showMissing(form, listMissingFields(form), true);
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
