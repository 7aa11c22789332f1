// The button of a form names what it records.

import { gettext, ngettext } from "../translations.js";
import { isSending } from "./sending.js";
import { findCommonAnswer, listDecisions } from "./several_calls.js";

/** Name the chosen answer on the button of a form about one call, or none. */
export function labelButton(form) {
  const chosen = form.querySelector("input[name='kind']:checked");
  const button = form.querySelector("button[type='submit']");
  if (button && !isSending(button)) button.textContent = chosen?.dataset.button ?? button.dataset.unchosen;
}

const DECISION_LABELS = {
  approve: (count) => ngettext("Approve %(count)s call", "Approve %(count)s calls", count),
  reject: (count) => ngettext("Reject %(count)s call", "Reject %(count)s calls", count),
  confirm_landed: (count) => ngettext("Record that %(count)s call happened", "Record that %(count)s calls happened", count),
  mark_failed: (count) => ngettext("Record that %(count)s call did not happen", "Record that %(count)s calls did not happen", count),
  approve_rerun: (count) => ngettext("Approve %(count)s more run", "Approve %(count)s more runs", count),
};

// Of those that are selected for one answer, some may have an unusual amount.
const UNUSUAL_DECISION_LABELS = {
  approve: (values) => ngettext("Approve %(count)s call with an unusual amount", "Approve %(count)s calls, %(unusual)s unusual", values.count, values),
  reject: (values) => ngettext("Reject %(count)s call with an unusual amount", "Reject %(count)s calls, %(unusual)s unusual", values.count, values),
};
const labelUnanswered = (values) => ngettext("Record %(count)s decision about an unusual amount", "Record %(count)s decisions, %(unusual)s unusual", values.count, values);

function describeDecisions(decisions) {
  const [count, answer] = [decisions.length, findCommonAnswer(decisions)];
  const unusual = decisions.filter((each) => each.unusual !== undefined).length;
  if (unusual) return (UNUSUAL_DECISION_LABELS[answer] ?? labelUnanswered)({ count, unusual });
  return DECISION_LABELS[answer]?.(count) ?? ngettext("Record %(count)s decision", "Record %(count)s decisions", count);
}

/** Say on the button of a form about several calls how many decisions it records, and which if they have one answer; also on the link to the answer. */
export function labelDecisions(form) {
  const button = form.querySelector("button[data-label]");
  if (!button || isSending(button)) return;
  const decisions = listDecisions(form);
  const count = decisions.length;
  button.classList.toggle("primary", count > 0 && (!form.querySelector("input[name='answer']") || decisions[0].answer !== undefined));
  button.textContent = count ? describeDecisions(decisions) : button.dataset.label;
  const link = form.querySelector("[data-to-answer]");
  if (link) link.textContent = count ? ngettext("Choose an answer for %(count)s call", "Choose an answer for %(count)s calls", count) : gettext("Choose an answer");
}
