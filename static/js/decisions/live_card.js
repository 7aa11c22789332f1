// A page whose reader has not begun to answer shows the new state of the call, with its form. Otherwise the form stays as it
// is, and the request names the revision that it was made for, and the chosen answer: the page says what happened
// meanwhile, calmly where that is the same answer. Of a draft, this is the revision that its writer saw.

import { focusNeededField } from "./focus.js";
import { findForm, hasInput, hasText, isTyped } from "./forms.js";

const keepsForm = (elt) => !elt.matches("[data-take-change]") && findForm() !== null && hasInput(findForm());

document.body.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.target?.id !== "call-events") return;
  const kept = keepsForm(detail.elt) ? findForm() : null;
  const chosen = kept?.querySelector("input[name='kind']:checked");
  const { writtenAt } = kept?.dataset ?? {};
  detail.parameters.seen = writtenAt ?? kept?.elements.revision.value ?? "";
  if (writtenAt) detail.parameters.draft = "1";
  if (chosen) detail.parameters.kind = chosen.value;
});

let places = [];
let headingBefore = "";
let unchangedArguments = [];
document.body.addEventListener("htmx:beforeSwap", ({ target, detail }) => {
  unchangedArguments = findForm() ? listUnchangedArguments(findForm()) : [];
  const isHandOver = detail.requestConfig.elt.matches("[data-hand-over]"); // what it says above the form is to be read
  places = target.id === "main" || isHandOver ? [] : measureForm();
  if (target.id !== "call-events") return;
  headingBefore = document.getElementById("heading").textContent;
  const { elt, parameters } = detail.requestConfig;
  if (elt.matches("[data-take-change]")) keepTexts(findForm());
  else if (keepsForm(elt) && !parameters.seen) {
    detail.shouldSwap = false; // the reader began while the request was on its way
    document.body.dispatchEvent(new CustomEvent("harness:responseDropped"));
  }
});
document.body.addEventListener("htmx:afterSwap", () => {
  for (const field of unchangedArguments) takeOverStoredArgument(field);
  markTextsToKeep();
  restorePlace(places);
});
document.body.addEventListener("htmx:afterSettle", ({ target }) => {
  const heading = document.getElementById("heading");
  if (target.id === "call-events" && heading.textContent !== headingBefore) document.getElementById("announcement").textContent = heading.textContent;
});

/** Mark what the reader has not typed: once the call is decided, there is no need to keep it. */
function markTextsToKeep() {
  const decide = findForm();
  if (!decide) return;
  decide.toggleAttribute("data-without-text", !hasText(decide));
  for (const field of decide.querySelectorAll("textarea")) field.toggleAttribute("data-untyped", !isTyped(field));
}

/** Return the focused field and the form, with their places on the screen, if the reader is at the form. */
function measureForm() {
  const decide = findForm();
  if (!decide?.checkVisibility()) return [];
  const { top, bottom } = decide.getBoundingClientRect();
  const focused = decide.contains(document.activeElement) ? document.activeElement : null;
  if (!focused && (bottom < 0 || top > window.innerHeight)) return [];
  return [focused ?? decide, decide].map((element) => ({ element, top: element.getBoundingClientRect().top }));
}

/** Scroll so that the form is where it was, and a message that the call was decided meanwhile is in view. */
function restorePlace(places) {
  if (!places.length) return;
  const place = places.find(({ element }) => element.checkVisibility());
  if (place) window.scrollBy({ top: place.element.getBoundingClientRect().top - place.top, behavior: "instant" });
  const note = document.querySelector(".decided-elsewhere");
  if (note?.checkVisibility()) note.scrollIntoView({ block: "nearest", behavior: "instant" });
}

const storedArgument = ({ dataset }) => dataset.stored.replaceAll("\r\n", "\n");

function listUnchangedArguments(decide) {
  return [...decide.querySelectorAll("[data-stored]")].filter((field) => field.value === storedArgument(field));
}

/** Give a field that its reader has not changed the argument that the call has now, as if the page was opened now. */
function takeOverStoredArgument(field) {
  const stored = storedArgument(field);
  if (!field.isConnected || field.value === stored) return;
  if (field.matches("select")) for (const option of field.options) option.defaultSelected = option.value === stored;
  else field.defaultValue = stored;
  field.value = stored;
}

/** Keep the texts of a form that gets new initial values. */
function keepTexts(decide) {
  for (const field of decide.querySelectorAll("textarea")) {
    const { value } = field;
    if (decide.hasAttribute("data-sent") || value !== field.defaultValue) field.value = value; // a field that was set keeps its text
  }
}

/** Go on in a form that now is about the new state of the call. */
export function continueWithNewState(decide) {
  const chosen = decide.querySelector("input[name='kind']:checked");
  decide.querySelector(".arguments")?.dispatchEvent(new Event("input", { bubbles: true })); // their changes are compared again
  if (chosen) focusNeededField(chosen);
}
