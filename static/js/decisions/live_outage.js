// A refreshed form of an outage is about one call if the others were decided meanwhile. Its own answer is then that of the form;
// an answer for all is not, as it was given for others, too.

let answersOfCalls = new Map();

/** List the answers of a form about several calls, each with its texts. */
function readAnswersOfCalls() {
  const rows = [...document.querySelectorAll("#outage li.answer-row")];
  if (rows.length < 2) return new Map();
  const read = (row) => Object.fromEntries(["answer", "result", "evidence", "reason"].map((name) => [name, row.querySelector(`.${name} :is(select, input, textarea)`).value]));
  const shared = read(document.querySelector("#outage .for-all"));
  return new Map(rows.map((row) => [row.id, { ...read(row), shared }]));
}

/** Choose the answer that the only call which is left had before the others left, with its texts. */
function keepOwnAnswer() {
  const rows = document.querySelectorAll("#outage li.answer-row");
  const own = rows.length === 1 && answersOfCalls.get(rows[0].id);
  if (!own || !own.answer || own.answer === "undecided") return;
  const fields = rows[0].closest("form").elements;
  const texts = own.answer === own.shared.answer ? own.shared : { evidence: "", reason: "" };
  fields["shared-answer"].value = own.answer;
  fields["shared-result"].value = own.result;
  for (const name of ["evidence", "reason"]) fields[`shared-${name}`].value = own[name] || texts[name];
  fields["shared-answer"].dispatchEvent(new Event("change", { bubbles: true }));
}

// An answer for all was chosen for calls of which nobody knew what happened. If a verification then finds that for some of
// them, it says something about the others, too: the answer has to be chosen again.

const FORM = "#outage form[data-verified]";
let verifiedBefore = null;
let isAnswerReset = false;

function resetAnswerForAll() {
  const form = document.querySelector(FORM);
  const answer = form?.querySelector(".for-all [name='shared-answer']");
  const isNew = verifiedBefore !== null && form && Number(form.dataset.verified) > verifiedBefore;
  if (isNew && answer?.value) {
    answer.value = "";
    answer.dispatchEvent(new Event("change", { bubbles: true }));
    isAnswerReset = true;
  }
  showAnswerReset();
}

/** Say that the answer was reset until it is chosen again; a live update has hidden the remark. */
function showAnswerReset() {
  const remark = document.querySelector(`${FORM} [data-answer-reset]`);
  if (remark) remark.hidden = !isAnswerReset;
}

document.addEventListener("change", ({ target, isTrusted }) => {
  if (!isTrusted || target.name !== "shared-answer") return;
  isAnswerReset = false;
  showAnswerReset();
});

document.body.addEventListener("htmx:beforeSwap", ({ target }) => {
  const form = document.querySelector(FORM);
  verifiedBefore = ["outage", "main"].includes(target.id) && form ? Number(form.dataset.verified) : null;
  answersOfCalls = target.id === "outage" ? readAnswersOfCalls() : new Map();
});
document.body.addEventListener("htmx:afterSwap", () => {
  keepOwnAnswer();
  resetAnswerForAll();
});
document.body.addEventListener("harness:draftChanged", resetAnswerForAll); // a form that was replaced has its input again
