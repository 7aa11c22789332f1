// The required fields that a form leaves empty, in the order of the page. The server checks them too, and all else.

const isEmpty = (field) => !field.value.trim();

const describe = (field, message = field.dataset.missing) => ({ field, message });

/** Return the first radio button of a fieldset that needs a choice and has none; there are others inside of its answers. */
function listMissingChoice(form) {
  const fieldset = form.querySelector("fieldset[data-missing]");
  const options = fieldset ? [...fieldset.querySelectorAll(":is([name='kind'], [name='answer'])[type='radio']:not(:disabled)")] : [];
  return !options.length || options.some((option) => option.checked) ? [] : [describe(options[0], fieldset.dataset.missing)];
}

/** Return the visible texts that the chosen answer needs. */
function listMissingTexts(form) {
  const kind = form.querySelector("input[name='kind']:checked")?.value ?? "";
  const isNeeded = ({ dataset }) => !dataset.missingFor || dataset.missingFor.split(" ").includes(kind);
  return [...form.querySelectorAll("textarea[data-missing]")].filter((field) => isEmpty(field) && field.checkVisibility() && isNeeded(field)).map((field) => describe(field));
}

/** Return the first checkbox of the calls if none is selected. */
function listMissingSelection(form) {
  const calls = form.querySelector("div[data-missing]");
  const boxes = calls ? [...calls.querySelectorAll("li input[type='checkbox']")] : [];
  return !calls || boxes.some((box) => box.checked) ? [] : [describe(boxes[0], calls.dataset.missing)];
}

/** Return what the answers about several interrupted calls need: texts of single calls, and those for all. */
function listMissingOfOutage(form) {
  const [answer, evidence, reason] = ["answer", "evidence", "reason"].map((name) => form.elements[`shared-${name}`]);
  const rows = [...form.querySelectorAll("li.answer-row:not(.only)")].map((row) => ({ answer: row.querySelector(".answer select").value, reason: row.querySelector(".reason input") }));
  const answered = rows.filter((row) => row.answer && row.answer !== "undecided");
  const callsAsForAll = rows.filter((row) => !row.answer).length;
  const missing = [];
  for (const row of answered.filter((each) => isEmpty(each.reason))) {
    if (answer.value && row.answer !== answer.value) missing.push(describe(row.reason, row.reason.dataset.missingOther));
    else if (!answer.value && isEmpty(reason)) missing.push(describe(row.reason));
  }
  if (!answer.value) return answered.length ? missing : [describe(answer)];
  const needsEvidence = callsAsForAll > 1 && evidence.dataset.missingFor.split(" ").includes(answer.value);
  if (needsEvidence && isEmpty(evidence)) missing.push(describe(evidence));
  if (isEmpty(reason)) missing.push(describe(reason));
  return missing;
}

/** List the required fields that a form leaves empty, each with its error. */
export function listMissingFields(form) {
  if (form.elements["shared-answer"]) return listMissingOfOutage(form);
  return [...listMissingSelection(form), ...listMissingChoice(form), ...listMissingTexts(form)];
}
