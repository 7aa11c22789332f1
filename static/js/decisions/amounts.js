// Above the button of a form about several calls is how much its decisions amount to.

import { gettext, ngettext } from "../translations.js";
import { findCommonAnswer, listDecisions } from "./several_calls.js";

/** Format the sum of the amounts of these decisions; empty unless all of them have an amount in one currency. */
function formatSum(decisions) {
  const currencies = new Set(decisions.map((each) => each.currency));
  const [currency] = currencies;
  if (currencies.size !== 1 || currency === undefined) return "";
  const sum = decisions.reduce((sofar, each) => sofar + Number(each.amount), 0);
  const shown = sum.toLocaleString(document.documentElement.lang, { minimumFractionDigits: 2, maximumFractionDigits: 6 });
  return `${shown} ${currency}`.trim();
}

const COUNTED_ANSWERS = {
  confirm_landed: (count) => ngettext("%(count)s happened", "%(count)s happened", count),
  mark_failed: (count) => ngettext("%(count)s did not happen", "%(count)s did not happen", count),
  approve_rerun: (count) => ngettext("%(count)s runs once more", "%(count)s run once more", count),
};

/** Say how many calls each of several answers is for, with their amount: a sum over opposite answers would say nothing. */
function describeEachAnswer(decisions) {
  const parts = Object.entries(COUNTED_ANSWERS).map(([answer, describe]) => {
    const those = decisions.filter((each) => each.answer === answer);
    const amount = formatSum(those);
    return those.length ? describe(those.length) + (amount && ` (${amount})`) : "";
  });
  return parts.filter(Boolean).join(" · ");
}

/** Say how much the calls amount to, and whether they may happen twice; for each answer if they differ. */
function describeAmounts(decisions) {
  if (decisions.length && !findCommonAnswer(decisions) && decisions[0].answer) return describeEachAnswer(decisions);
  const amount = formatSum(decisions);
  if (!amount) return "";
  const isAgain = decisions[0].answer === "approve_rerun";
  if (isAgain && decisions.length === 1) return gettext("%(amount)s, maybe a second time", { amount });
  if (isAgain) return gettext("%(amount)s in total, maybe a second time", { amount });
  return decisions.length === 1 ? amount : gettext("%(amount)s in total", { amount });
}

const describeUnusual = (count, unusual) =>
  count === 1 ? gettext("It has an unusual amount.") : ngettext("%(unusual)s of them has an unusual amount.", "%(unusual)s of them have an unusual amount.", unusual, { unusual });

/** Say above the button how many of the selected calls have an unusual amount, or that those are not among all others. */
function countUnusual(form, decisions) {
  const remark = form.querySelector("[data-unusual-selected]");
  if (!remark) return;
  const unusual = decisions.filter((each) => each.unusual !== undefined).length;
  remark.querySelector("span").textContent = unusual ? describeUnusual(decisions.length, unusual) : describeUnselected(form);
  remark.hidden = !remark.textContent.trim();
}

/** Say how many calls with an unusual amount are not selected, if all others are; else nothing. */
function describeUnselected(form) {
  const calls = [...form.querySelectorAll("li input[type='checkbox'][name='call']")];
  const usual = calls.filter((each) => each.dataset.unusual === undefined);
  const unusual = calls.length - usual.length;
  if (!unusual || !usual.length || !usual.every((each) => each.checked)) return "";
  return ngettext("%(unusual)s call with an unusual amount is not selected.", "%(unusual)s calls with an unusual amount are not selected.", unusual, { unusual });
}

export function addAmounts(form) {
  const total = form.querySelector("[data-total]");
  if (!total) return;
  const decisions = listDecisions(form);
  countUnusual(form, decisions);
  total.textContent = describeAmounts(decisions);
  total.hidden = !total.textContent;
  total.classList.toggle("twice", decisions.some((each) => each.answer === "approve_rerun"));
}
