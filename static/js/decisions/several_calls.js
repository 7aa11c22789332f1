// The answers of a form about several calls: which calls are selected or answered, and how.

/** List the decisions that a form about several calls records now, each with the amount of its call. */
export function listDecisions(form) {
  const answer = form.querySelector("input[name='answer']:checked")?.value;
  const selected = [...form.querySelectorAll("li input[type='checkbox'][name='call']:checked")];
  const rows = [...form.querySelectorAll("li.answer-row")];
  const answered = rows.map((row) => ({ answer: row.querySelector(".answer select").value || form.elements["shared-answer"].value, ...row.dataset }));
  return [...selected.map((each) => ({ answer, ...each.dataset })), ...answered.filter((each) => each.answer && each.answer !== "undecided")];
}

/** Return the answer that all these decisions have; undefined if they differ. */
export const findCommonAnswer = (decisions) => (new Set(decisions.map((each) => each.answer)).size === 1 ? decisions[0].answer : undefined);

/** Return whether the call of this field has an answer other than that for all calls. */
export function hasOtherAnswer(form, field) {
  const shared = form.elements["shared-answer"].value;
  const own = field.closest("li")?.querySelector(".answer select").value;
  return Boolean(shared && own) && own !== shared;
}

/** Select all calls below a checkbox for all, or none; it shows whether all are selected, or some. */
export function selectCalls(form, changed) {
  for (const all of form.querySelectorAll("input[data-select-all]")) {
    const calls = [...all.closest(".selectable-calls").querySelectorAll("li input[name='call']")];
    if (changed === all) for (const call of calls) call.checked = all.checked;
    all.checked = calls.every((call) => call.checked);
    all.indeterminate = !all.checked && calls.some((call) => call.checked);
  }
}
