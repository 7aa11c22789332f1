// A refreshed list of calls says how many left it since it was opened, because somebody decided them or their run went on.

import { ngettext } from "../translations.js";

let listedCalls = [];
const callsThatLeft = new Set();

function listSelectableCalls() {
  return [...document.querySelectorAll("#same-approvals li input[name='call']")].map((each) => each.id);
}

function sayWhichCallsLeft() {
  const remaining = listSelectableCalls();
  for (const id of listedCalls) if (!remaining.includes(id)) callsThatLeft.add(id);
  const remark = document.querySelector("#same-approvals [data-calls-that-left]");
  if (!remark || !callsThatLeft.size) return;
  const count = callsThatLeft.size;
  remark.textContent = ngettext("%(count)s call left this list meanwhile: it was decided elsewhere, or it waits no longer.", "%(count)s calls left this list meanwhile: they were decided elsewhere, or wait no longer.", count);
}

document.body.addEventListener("htmx:beforeSwap", ({ target }) => {
  listedCalls = target.id === "same-approvals" ? listSelectableCalls() : [];
  if (target.id === "main") callsThatLeft.clear();
});
document.body.addEventListener("htmx:afterSettle", ({ target }) => {
  if (target.id === "same-approvals") sayWhichCallsLeft();
});
