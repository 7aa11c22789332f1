// The decision form: the keys 1 to 9 choose an answer, the button names the decision, Ctrl+Enter records it.

import { showArgumentChanges } from "./argument_changes.js";
import { gettext, ngettext } from "./translations.js";

const form = () => document.querySelector("form[data-decide]");

function labelButton(form) {
  const chosen = form.querySelector("input[name='kind']:checked");
  const button = form.querySelector("button[type='submit']");
  if (chosen && button) button.textContent = chosen.dataset.button;
}

/** Move a typed reason to where the chosen answer asks for it. The agent gets that of a rejection, unless it is private. */
function moveReason(form) {
  const { message, reason } = form.elements;
  const kind = form.querySelector("input[name='kind']:checked")?.value;
  if (!message || !kind || form.querySelector(".private-reason input")?.checked || kind === "respond" || kind.startsWith("option-")) return;
  const [from, to] = kind === "reject" ? [reason, message] : [message, reason];
  if (!from.value || to.value) return;
  [to.value, from.value] = [from.value, ""];
  for (const field of [to, from]) field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Remove the errors of fields that have been filled in, and the remark beside the button once no error is left. */
function removeMendedErrors(form, field) {
  if (!field.value) return;
  // The value of some fields also counts for others that are empty, unless it is about another answer than theirs.
  const isShared = (each) => field.dataset.default && each.name.endsWith(field.dataset.default) && !each.value && !hasOtherAnswer(form, each);
  // The answer for a call is also one of those that the form asks for.
  const isMendedBy = (each) => isShared(each) || (each.name === "shared-answer" && field.closest("li .answer"));
  const others = [...form.elements].filter(isMendedBy);
  for (const mended of [field, ...others]) removeErrors(form, mended);
  const left = [...form.querySelectorAll(".errorlist li")].some((each) => each.checkVisibility());
  if (!left) form.querySelector(".problem:not([data-connection])")?.remove();
  else nameFirstError(form);
}

/** Return whether the call of this field has an answer other than that for all calls. */
function hasOtherAnswer(form, field) {
  const shared = form.elements["shared-answer"].value;
  const own = field.closest("li")?.querySelector(".answer select").value;
  return Boolean(shared && own) && own !== shared;
}

/** Name the first error that is left beside the button, if the form repeats it there. */
function nameFirstError(form) {
  const link = form.querySelector("[data-first-error]");
  const error = form.querySelector(".errorlist li");
  if (!link || !error) return;
  link.textContent = error.textContent;
  link.href = `#${error.closest(".field").querySelector("input, textarea, select").id}`;
}

const DECISION_LABELS = {
  approve: (count) => ngettext("Approve %(count)s call", "Approve %(count)s calls", count),
  reject: (count) => ngettext("Reject %(count)s call", "Reject %(count)s calls", count),
  confirm_landed: (count) => ngettext("Record that %(count)s call happened", "Record that %(count)s calls happened", count),
  mark_failed: (count) => ngettext("Record that %(count)s call did not happen", "Record that %(count)s calls did not happen", count),
  approve_rerun: (count) => ngettext("Approve %(count)s more run", "Approve %(count)s more runs", count),
};

/** List the decisions that a form about several calls records now, each with the amount of its call. */
function listDecisions(form) {
  const answer = form.querySelector("input[name='answer']:checked")?.value;
  const selected = [...form.querySelectorAll("li input[type='checkbox'][name='call']:checked")];
  const rows = [...form.querySelectorAll("li.answer-row")];
  const answered = rows.map((row) => ({ answer: row.querySelector(".answer select").value || form.elements["shared-answer"].value, ...row.dataset }));
  return [...selected.map((each) => ({ answer, ...each.dataset })), ...answered.filter((each) => each.answer && each.answer !== "undecided")];
}

/** Return the answer that all these decisions have; undefined if they differ. */
const findCommonAnswer = (decisions) => (new Set(decisions.map((each) => each.answer)).size === 1 ? decisions[0].answer : undefined);

/** Say on the button of a form about several calls how many decisions it records, and which if they have one answer. */
function labelDecisions(form) {
  const button = form.querySelector("button[data-label]");
  if (!button) return;
  const decisions = listDecisions(form);
  const count = decisions.length;
  const label = DECISION_LABELS[findCommonAnswer(decisions)] ?? (() => ngettext("Record %(count)s decision", "Record %(count)s decisions", count));
  button.classList.toggle("primary", count > 0 && (!form.querySelector("input[name='answer']") || decisions[0].answer !== undefined));
  button.textContent = count ? label(count) : button.dataset.label;
}

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

function addAmounts(form) {
  const total = form.querySelector("[data-total]");
  if (!total) return;
  const decisions = listDecisions(form);
  total.textContent = describeAmounts(decisions);
  total.hidden = !total.textContent;
  total.classList.toggle("twice", decisions.some((each) => each.answer === "approve_rerun"));
}

/** Select all calls of a form, or none; the checkbox for all shows whether all are selected. */
function selectCalls(form, changed) {
  const all = form.querySelector("input[data-select-all]");
  if (!all) return;
  const calls = [...form.querySelectorAll("li input[name='call']")];
  if (changed === all) for (const call of calls) call.checked = all.checked;
  all.checked = calls.every((call) => call.checked);
}

function removeErrors(form, field) {
  const place = field.closest(field.name === "kind" ? "fieldset" : ".field");
  if (!place?.querySelector(".errorlist")) return;
  for (const list of place.querySelectorAll(field.name === "kind" ? "#kind-errors .errorlist" : ".errorlist")) list.remove();
  for (const each of form.elements) if (each.name === field.name) each.removeAttribute("aria-invalid");
}

for (const type of ["change", "input"]) {
  document.addEventListener(type, (event) => {
    const decide = event.target.closest?.("form:is([data-decide], [data-decide-several])");
    if (!decide) return;
    if (type === "change") labelButton(decide);
    showArgumentChanges(decide);
    selectCalls(decide, event.target);
    labelDecisions(decide);
    addAmounts(decide);
    if (type === "change" && event.target.name === "kind" && event.isTrusted) moveReason(decide);
    removeMendedErrors(decide, event.target);
  });
}

// A reason that the reader has given before takes the place of an empty text.
document.addEventListener("click", (event) => {
  const earlier = event.target.closest?.("button[data-fill]");
  if (!earlier) return;
  const field = document.getElementById(earlier.dataset.fill);
  field.value = earlier.textContent;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});

// A link to the choice of a colleague opens the form around it, and chooses the only one there is.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-hand-over]");
  if (!link) return;
  event.preventDefault();
  const colleagues = document.querySelector(link.hash);
  colleagues.closest("details").open = true;
  if (!colleagues.value) colleagues.selectedIndex = 1; // the first after "nobody"
  labelHandover();
  colleagues.focus();
});

/** Say on the button of the comment form to whom it hands the call over, if to anybody. */
function labelHandover() {
  const button = document.querySelector("button[data-comment-label]");
  if (!button) return;
  const name = button.form.elements.to.value;
  button.textContent = name ? gettext("Hand over to %(name)s", { name }) : button.dataset.commentLabel;
}

document.addEventListener("change", ({ target }) => {
  if (target.matches?.("#comments select")) labelHandover();
});
document.body.addEventListener("htmx:afterSwap", labelHandover);

/** Return the form of the page that records decisions; null if there are several. */
function onlyForm() {
  const forms = document.querySelectorAll("main form:is([data-decide], [data-decide-several])");
  return forms.length === 1 ? forms[0] : null;
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

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    const sent = event.target.closest?.("main form") ?? (event.target.matches?.("body, summary, [tabindex='-1']") ? onlyForm() : null);
    if (!sent) return;
    event.preventDefault();
    sent.requestSubmit();
    return;
  }
  const decide = form();
  if (!decide || event.altKey) return;
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

// The number of an answer leads to the first text that this answer needs and that the texts for all do not give.
document.addEventListener("chosen-by-key", ({ target }) => {
  const isMissing = (field) => {
    const shared = target.form.elements[`shared-${field.name.split("-").at(-1)}`];
    return !field.value && (!shared.value || hasOtherAnswer(target.form, field));
  };
  [...target.closest(".answer-row").querySelectorAll(":is(.evidence, .reason) :is(input, [aria-required])")].find(isMissing)?.focus();
});

/** Return the visible field that only this answer has, if any. */
function findOwnField(option) {
  const ownFields = option.closest(".opt").nextElementSibling?.querySelectorAll("textarea, select, input:not([type='radio'])") ?? [];
  return [...ownFields].find((each) => each.checkVisibility());
}

/** Focus the field that an answer needs, so that the next letters are typed there. */
function focusNeededField(option) {
  const own = findOwnField(option);
  if (option.value.startsWith("option-")) return option.focus(); // it needs no text
  const needed = own && (option.value === "edit" || !own.value) ? own : option.form.elements.reason;
  needed.focus();
}

function isLinkToFormVisible() {
  return document.querySelector(".to-decision")?.checkVisibility() ?? false;
}

function isInSight(element) {
  return element !== undefined && element.getBoundingClientRect().bottom <= window.innerHeight;
}

/** Focus the first invalid field, and scroll it into view. */
function focusInvalid(form) {
  const invalid = form.dataset.invalid;
  if (!invalid) return;
  const fields = form.querySelectorAll(`[name="${CSS.escape(invalid)}"], .arguments [name^="argument-"]`);
  const field = [...fields].find((each) => each.name === invalid && each.checkVisibility()) ?? [...fields].find((each) => each.checkVisibility());
  if (!field) return;
  field.focus({ preventScroll: true });
  (field.closest("fieldset, .field") ?? field).scrollIntoView({ block: "nearest" });
}

/** Focus what comes after a recorded decision: the link to the next call, which the heading describes, else the heading. */
function focusWhatFollows() {
  const following = ["a[data-next]", "h1"].flatMap((each) => [...document.querySelectorAll(`main ${each}`)]);
  following.find((each) => each.checkVisibility())?.focus({ preventScroll: true });
}

/** Focus the way on from a call that was handed over; if that was undone, what opens the form again. */
function focusWhatFollowsHandover() {
  document.querySelector("#comments :is(.handover a, details summary)")?.focus({ preventScroll: true });
}

/** Return the focused field and the form, with their places on the screen, if the reader is at the form. */
function measureForm() {
  const decide = form();
  if (!decide?.checkVisibility()) return [];
  const { top, bottom } = decide.getBoundingClientRect();
  const focused = decide.contains(document.activeElement) ? document.activeElement : null;
  if (!focused && (bottom < 0 || top > window.innerHeight)) return [];
  return [focused ?? decide, decide].map((element) => ({ element, top: element.getBoundingClientRect().top }));
}

/** Return whether the reader has begun to fill in a form: chosen an answer, typed a text or added a file. */
function hasInput(decide) {
  const chosen = decide.querySelector("input[name='kind']:checked");
  const isChosenByReader = chosen && (!chosen.defaultChecked || chosen.autofocus); // not the only answer, which the page has chosen
  const fields = decide.querySelectorAll("textarea, select, input[type='text'], input[type='file'], input:not([type])");
  return isChosenByReader || decide.hasAttribute("data-sent") || [...fields].some(isFilledIn);
}

function isFilledIn(field) {
  return field.matches("select") ? !field.selectedOptions[0]?.defaultSelected : field.value !== field.defaultValue;
}

/** Scroll so that the form is where it was, and a message that the call was decided meanwhile is in view. */
function restorePlace(places) {
  if (!places.length) return;
  const place = places.find(({ element }) => element.checkVisibility());
  if (place) window.scrollBy({ top: place.element.getBoundingClientRect().top - place.top, behavior: "instant" });
  const note = document.querySelector(".decided-elsewhere");
  if (note?.checkVisibility()) note.scrollIntoView({ block: "nearest", behavior: "instant" });
}

/** Mark the fields of edited arguments whose preview has an error below them. */
function markInvalidArguments(form) {
  for (const place of form.querySelectorAll(".by-field .field")) {
    const field = place.querySelector("input, textarea, select");
    if (place.querySelector(".errorlist")) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
}

// A link to the form stays at the lower edge of a small window until the form begins above that link.
const sight = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) target.toggleAttribute("data-in-sight", isIntersecting);
  },
  { rootMargin: "0px 0px -76px" },
);

function observeForm() {
  sight.disconnect();
  if (form()) sight.observe(form());
}

// A page whose reader has not begun to answer shows the new state of the call, with its form. Otherwise the form stays as it
// is, and the request names the revision that it was made for, and the chosen answer: the page says what happened
// meanwhile, calmly where that is the same answer.
const keepsForm = (elt) => !elt.matches("[data-take-change]") && form() !== null && hasInput(form());

document.body.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.target?.id !== "call-events") return;
  const kept = keepsForm(detail.elt) ? form() : null;
  const chosen = kept?.querySelector("input[name='kind']:checked");
  detail.parameters.seen = kept?.elements.revision.value ?? "";
  if (chosen) detail.parameters.kind = chosen.value;
});

let places = [];
let headingBefore = "";
document.body.addEventListener("htmx:beforeSwap", ({ target, detail }) => {
  places = target.id === "main" ? [] : measureForm();
  if (target.id !== "call-events") return;
  headingBefore = document.getElementById("heading").textContent;
  const { elt, parameters } = detail.requestConfig;
  if (elt.matches("[data-take-change]")) keepTexts(form());
  else if (keepsForm(elt) && !parameters.seen) {
    detail.shouldSwap = false; // the reader began while the request was on its way
    document.body.dispatchEvent(new CustomEvent("harness:responseDropped"));
  }
});
document.body.addEventListener("htmx:afterSwap", () => restorePlace(places));

/** Keep the texts of a form that gets new initial values. */
function keepTexts(decide) {
  for (const field of decide.querySelectorAll("textarea")) {
    const { value } = field;
    if (decide.hasAttribute("data-sent") || value !== field.defaultValue) field.value = value; // a field that was set keeps its text
  }
}

/** Go on in a form that now is about the new state of the call. */
function continueWithNewState(decide) {
  const chosen = decide.querySelector("input[name='kind']:checked");
  decide.querySelector(".arguments")?.dispatchEvent(new Event("input", { bubbles: true })); // their changes are compared again
  if (chosen) focusNeededField(chosen);
}

function countAllAnswers() {
  for (const several of document.querySelectorAll("form[data-decide-several]")) {
    selectCalls(several);
    labelDecisions(several);
    addAmounts(several);
  }
}

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

document.body.addEventListener("htmx:beforeSwap", ({ target }) => {
  answersOfCalls = target.id === "outage" ? readAnswersOfCalls() : new Map();
});
document.body.addEventListener("htmx:afterSwap", keepOwnAnswer);

// A refreshed list of calls says how many left it since it was opened, because somebody decided them or their run went on.
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

/** Open the next call by itself after a decision, if the reader has chosen so. Return whether it opens. */
function openNextCall(sent) {
  const next = document.querySelector("main a[data-opens]");
  if (!next || !sent?.matches?.("form[data-decide]")) return false;
  window.location.assign(next.dataset.opens);
  return true;
}

document.body.addEventListener("htmx:afterSettle", ({ target, detail }) => {
  const decide = form();
  countAllAnswers();
  if (target.id === "same-approvals") sayWhichCallsLeft();
  if (target.id === "comments" && document.activeElement === document.body) focusWhatFollowsHandover();
  const sent = detail.requestConfig?.elt;
  const isRecorded = sent?.matches?.("form[data-decide]") ? !decide?.hasAttribute("data-sent") && !document.querySelector(".refusal-note") : !decide && document.activeElement === document.body && document.querySelector("#decision-state, #outage, #same-approvals");
  if (target.id === "main" && isRecorded && !openNextCall(sent)) focusWhatFollows();
  const heading = document.getElementById("heading");
  if (target.id === "call-events" && heading.textContent !== headingBefore) document.getElementById("announcement").textContent = heading.textContent;
  if (!decide) return;
  labelButton(decide);
  showArgumentChanges(decide);
  if (target.id === "change") markInvalidArguments(decide);
  if (target.id === "main") focusInvalid(decide);
  if (sent?.matches?.("[data-take-change]")) continueWithNewState(decide);
  const isWithdrawn = sent?.matches?.("form[data-withdraw]") && document.activeElement === document.body;
  if (isWithdrawn) (document.querySelector("[data-withdrawn]") ?? document.getElementById("heading")).focus({ preventScroll: true });
});
document.body.addEventListener("htmx:afterSettle", observeForm);
document.body.addEventListener("harness:draftChanged", countAllAnswers);
observeForm();
countAllAnswers();
labelHandover();
document.getElementById("previous")?.focus({ preventScroll: true }); // it says that the decision before is recorded
if (form()) {
  labelButton(form());
  showArgumentChanges(form());
  focusInvalid(form());
  const chosen = form().querySelector("input[name='kind']:checked");
  if (chosen?.autofocus) {
    chosen.closest("details.change-answer")?.setAttribute("open", "");
    focusNeededField(chosen); // chosen in the list, by its number
  }
  // A question can have one answer, which is chosen from the start. A page whose form is not in sight does not jump there.
  else if (chosen?.defaultChecked && document.activeElement === document.body && !isLinkToFormVisible() && isInSight(findOwnField(chosen)))
    findOwnField(chosen).focus();
}
