// The button of a form names what it records.

import { gettext, ngettext } from "../translations.js";
import { findCommonAnswer, listDecisions } from "./several_calls.js";

/** Name the chosen answer on the button of a form about one call, or none. */
export function labelButton(form) {
  const chosen = form.querySelector("input[name='kind']:checked");
  const button = form.querySelector("button[type='submit']");
  if (button) button.textContent = chosen?.dataset.button ?? button.dataset.unchosen;
}

const DECISION_LABELS = {
  approve: (count) => ngettext("Approve %(count)s call", "Approve %(count)s calls", count),
  reject: (count) => ngettext("Reject %(count)s call", "Reject %(count)s calls", count),
  confirm_landed: (count) => ngettext("Record that %(count)s call happened", "Record that %(count)s calls happened", count),
  mark_failed: (count) => ngettext("Record that %(count)s call did not happen", "Record that %(count)s calls did not happen", count),
  approve_rerun: (count) => ngettext("Approve %(count)s more run", "Approve %(count)s more runs", count),
};

/** Say on the button of a form about several calls how many decisions it records, and which if they have one answer; also on the link to the answer. */
export function labelDecisions(form) {
  const button = form.querySelector("button[data-label]");
  if (!button) return;
  const decisions = listDecisions(form);
  const count = decisions.length;
  const label = DECISION_LABELS[findCommonAnswer(decisions)] ?? (() => ngettext("Record %(count)s decision", "Record %(count)s decisions", count));
  button.classList.toggle("primary", count > 0 && (!form.querySelector("input[name='answer']") || decisions[0].answer !== undefined));
  button.textContent = count ? label(count) : button.dataset.label;
  const link = form.querySelector("[data-to-answer]");
  if (link) link.textContent = count ? ngettext("Choose an answer for %(count)s call", "Choose an answer for %(count)s calls", count) : gettext("Choose an answer");
}
