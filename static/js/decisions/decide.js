// The forms that record decisions: what follows the input of a reader, a response of the server, and the opening of a page.

import { findUnfoldedText, isFoldOfText } from "../unfolded_texts.js";
import { addAmounts } from "./amounts.js";
import { abortPreviews, listChangesOfDraft, markChangedArguments } from "./argument_changes.js";
import { labelButton, labelDecisions } from "./button_labels.js";
import { findOwnField, focusInvalid, focusNeededField, focusWhatFollows, isInSight, isLinkToFormVisible, keepInView } from "./focus.js";
import { markInvalidArguments, removeMendedErrors, reportMissingFields, showReportedErrorsAgain } from "./form_errors.js";
import { findForm } from "./forms.js";
import { continueWithNewState } from "./live_card.js";
import { moveReason } from "./reasons.js";
import { selectCalls } from "./several_calls.js";

for (const type of ["change", "input"]) {
  document.addEventListener(type, (event) => {
    const withdraw = event.target.closest?.("form:is([data-withdraw], [data-withdraw-several], [data-restore])");
    if (withdraw) removeMendedErrors(withdraw, event.target);
    const decide = event.target.closest?.("form:is([data-decide], [data-decide-several])");
    if (!decide) return;
    if (type === "change") labelButton(decide);
    markChangedArguments(decide);
    selectCalls(decide, event.target);
    labelDecisions(decide);
    addAmounts(decide);
    if (type === "change" && event.target.name === "kind" && event.isTrusted) {
      moveReason(decide);
      keepInView(event.target);
    }
    // The server has read an edited argument before its reader leaves the field, so its error stays.
    if (type === "input" || !event.target.closest(".arguments")) removeMendedErrors(decide, event.target);
  });
}

// A form whose button is hidden only keeps the text: the call is decided, or the deadline has passed. It sends nothing.
document.addEventListener(
  "submit",
  (event) => {
    if (!event.target.matches("form[data-decide]") || event.target.querySelector("button[type='submit']").checkVisibility()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);

// A form is not sent without what it needs.
document.addEventListener(
  "submit",
  (event) => {
    const isChecked = event.target.matches("form:is([data-decide], [data-decide-several], [data-withdraw], [data-withdraw-several], [data-restore])");
    if (!isChecked || !reportMissingFields(event.target)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);

// A form that is sent does not wait for the preview of its changes, which may take long: its response has them.
document.addEventListener(
  "submit",
  ({ target }) => {
    if (!target.matches("form[data-decide]") || target.querySelector("button[type='submit']").disabled) return;
    abortPreviews(target);
  },
  true,
);

// The browser tells only later that a part was unfolded, when its reader may have typed already.
document.addEventListener("click", (event) => {
  const fold = event.target.closest?.("summary")?.parentElement;
  if (event.defaultPrevented || !isFoldOfText(fold)) return;
  event.preventDefault();
  fold.open = true;
  findUnfoldedText(fold)?.focus({ preventScroll: true });
});

// What unfolds below the edge of the window would look as if nothing had happened. Its text, if it has one, gets the focus.
document.addEventListener(
  "toggle",
  ({ target }) => {
    if (!target.open || !target.contains(document.activeElement)) return;
    const text = findUnfoldedText(target);
    text?.focus({ preventScroll: true });
    if (target.matches(".sign-off details")) target.scrollIntoView({ block: "nearest" });
    else text?.form.scrollIntoView({ block: "nearest" });
  },
  true,
);

function countAllAnswers() {
  for (const several of document.querySelectorAll("form[data-decide-several]")) {
    selectCalls(several);
    labelDecisions(several);
    addAmounts(several);
  }
}

/** Open the next call by itself after a decision, if the reader has chosen so. Return whether it opens. */
function openNextCall(sent) {
  const next = document.querySelector("main a[data-opens]");
  if (!next || !sent?.matches?.("form[data-decide]")) return false;
  window.location.assign(next.dataset.opens);
  return true;
}

/** Return whether the response to this form shows that its decisions are recorded. */
function isRecorded(sent) {
  const form = findForm();
  if (sent?.matches?.("form[data-decide]")) return !form?.hasAttribute("data-sent") && !document.querySelector(".refusal-note");
  if (sent?.matches?.("form[data-withdraw-several]")) return false;
  if (sent?.matches?.("form[data-decide-several]")) return !document.querySelector("form[data-decide-several][data-sent]");
  return !form && document.activeElement === document.body && document.querySelector("#decision-state, #outage, #same-approvals");
}

// Before the browser draws the page without them.
document.body.addEventListener("htmx:afterSwap", showReportedErrorsAgain);

document.body.addEventListener("htmx:afterSettle", ({ target, detail }) => {
  const form = findForm();
  const sent = detail.requestConfig?.elt;
  countAllAnswers();
  if (target.id === "main" && isRecorded(sent) && !openNextCall(sent)) focusWhatFollows();
  if (sent?.matches?.("form[data-withdraw-several]") && document.activeElement === document.body) (document.querySelector("[data-withdrawn]") ?? document.querySelector("main h1"))?.focus({ preventScroll: true });
  if (!form) return;
  labelButton(form);
  markChangedArguments(form);
  if (target.id === "change") markInvalidArguments(form);
  if (!form.querySelector("#warned-arguments > *")) form.querySelector("[data-approve-later]")?.setAttribute("hidden", "");
  if (target.id === "main") focusInvalid(form);
  if (target.id === "main" && form.querySelector("[data-unrecorded]")) document.getElementById("change").scrollIntoView({ block: "center" });
  if (sent?.matches?.("[data-take-change]")) continueWithNewState(form);
  const isUndone = sent?.matches?.("form:is([data-withdraw], [data-restore])") && document.activeElement === document.body;
  if (isUndone) (document.querySelector("[data-withdrawn], [data-restored]") ?? document.getElementById("heading")).focus({ preventScroll: true });
});
document.body.addEventListener("harness:draftChanged", () => {
  countAllAnswers();
  const form = findForm();
  if (!form) return;
  labelButton(form);
  markChangedArguments(form);
  listChangesOfDraft(form);
});

/** Label the button of a form that was opened, and focus the field where its reader begins. */
function openForm(form) {
  labelButton(form);
  markChangedArguments(form);
  focusInvalid(form);
  const chosen = form.querySelector("input[name='kind']:checked");
  if (chosen?.autofocus) {
    chosen.closest("details.change-answer")?.setAttribute("open", "");
    focusNeededField(chosen); // chosen in the list, by its number
  }
  // A question can have one answer, which is chosen from the start. A page whose form is not in sight does not jump there.
  else if (chosen?.defaultChecked && document.activeElement === document.body && !isLinkToFormVisible() && isInSight(findOwnField(chosen)))
    findOwnField(chosen).focus();
}

countAllAnswers();
document.getElementById("previous")?.focus({ preventScroll: true }); // it says that the decision before is recorded
if (findForm()) openForm(findForm());
