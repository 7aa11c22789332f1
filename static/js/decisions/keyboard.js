// The keys 1 to 9 choose an answer, Ctrl+Enter records it, Ctrl+Shift+Enter records changed arguments and approves, Tab leads from a call to the texts of its answer, and Escape leaves a field.

import { scrollToConnectionProblem } from "../connection_problems.js";
import { isBesideUnfoldedText } from "../unfolded_texts.js";
import { isApprovalBlocked, sayWhatComesBeforeApproval } from "./approval_of_changes.js";
import { focusNeededField } from "./focus.js";
import { findForm, onlyForm } from "./forms.js";
import { hasOtherAnswer } from "./several_calls.js";

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    const sent = event.target.closest?.("main form") ?? (event.target.matches?.("body, summary, [tabindex='-1']") ? onlyForm() : null);
    if (!sent) return;
    event.preventDefault();
    if (sent.querySelector("button[type='submit']")?.disabled) {
      scrollToConnectionProblem(sent); // it is being sent, or cannot be
      return;
    }
    if (!event.shiftKey) sent.requestSubmit();
    else {
      const approving = sent.querySelector("button[name='then'][value='approve']");
      if (!approving?.checkVisibility()) return; // with another answer
      if (isApprovalBlocked(approving)) sayWhatComesBeforeApproval(sent);
      else approving.click(); // the request has the value of a button that was clicked
    }
    return;
  }
  const decide = findForm();
  if (!decide || event.altKey || isBesideUnfoldedText(event.target)) return;
  if (event.ctrlKey || event.metaKey || event.target.closest?.("input:not([type='radio']), textarea, select, dialog")) return;
  const option = decide.querySelectorAll("input[name='kind']")[Number(event.key) - 1];
  if (!option || option.disabled) return;
  event.preventDefault();
  option.closest("details")?.setAttribute("open", "");
  option.click();
  focusNeededField(option);
});

// Escape leaves a field of the form, so that the next keys are shortcuts again; the text stays. In a list of calls, the
// keys go on from the call of the field.
document.addEventListener("keydown", (event) => {
  const isLeaving = event.key === "Escape" && !event.isComposing && !event.defaultPrevented;
  if (!isLeaving || !event.target.matches?.("form:is([data-decide], [data-decide-several]) :is(textarea, select, input:not([type='radio'], [type='checkbox']))")) return;
  const row = event.target.closest("li")?.querySelector("[data-row]");
  if (row) row.focus();
  else event.target.blur();
});

// The number of an answer leaves the focus on its call. From there, Tab leads to the first text that this answer needs and that
// the texts for all do not give.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Tab" || event.shiftKey || !event.target.matches?.(".answer-row :is([data-row], .answer select)")) return;
  const row = event.target.closest(".answer-row");
  const answer = row.querySelector(".answer select").value;
  if (!answer || answer === "undecided") return;
  const isMissing = (field) => {
    const shared = field.form.elements[`shared-${field.name.split("-").at(-1)}`];
    return !field.value && (!shared.value || hasOtherAnswer(field.form, field));
  };
  const missing = [...row.querySelectorAll(".reason input, [aria-required]")].find(isMissing);
  if (!missing) return;
  event.preventDefault();
  missing.focus();
});
