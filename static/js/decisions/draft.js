// Unfinished input of forms about decisions is kept in the tab over reloads, lost connections and other pages, until it is
// recorded or the reader signs out. `data-draft` names the form, over all responses that contain it. Somebody else who signs in
// does not get it: it has the key of its user.

const PREFIX = "decision-draft:";
const live = document.getElementById("live");
const user = live?.dataset.reader.split("-")[0];
const SAVED_FIELDS = "textarea, select, input[type='text'], input[name]:not([type]), input[data-stored], input[type='radio'], input[type='checkbox'][name='call']";
const FORMS = "form[data-draft]";
const DECISION_FORMS = "form[data-draft]:is([data-decide], [data-decide-several])";
const PAGES = "[data-state], #outage, #same-approvals"; // pages of calls, with or without a form that is left

const keyOfName = (name) => `${PREFIX}${user}:${name}`;
const storageKey = (form) => keyOfName(form.dataset.draft);
const returnedDrafts = new Set(); // keys of the drafts with which the forms of this page were opened
const revision = (form) => form.elements.revision?.value;

/** Return whether a field is chosen or not. A selected call is chosen as it was: its value has its revision. */
const isChoice = (field) => field.matches("[type='radio'], [type='checkbox']");

/** Return the name under which the value of a field is kept: an answer for all is none for the only call that is left. */
const savedName = (field) => field.dataset.savedAs ?? (field.type === "checkbox" ? `${field.name}-${field.value}` : field.name);

/** Return whether a field is valid for one revision only, as arguments are. */
const isBoundToRevision = (name) => name === "args" || name === "written_as" || name.startsWith("argument-");

/** Return whether a field is an answer about the call as it was before it changed: its reader has to choose again. */
const isAnswerToEarlierCall = (field, same) => !same && field.name === "kind" && field.form.matches("[data-decide]");

/** Have the live update of the page say what has changed since this revision of the call, which the writer of a draft saw. */
function showChangesSince(form, written) {
  form.dataset.writtenAt = written;
  const refresh = () => window.htmx.trigger(document.body, document.getElementById("call-events").getAttribute("hx-trigger").split(" ")[0]);
  if (document.readyState === "complete") refresh();
  else window.addEventListener("load", refresh, { once: true });
}

function saveDraft(form) {
  const values = {};
  const sent = form.hasAttribute("data-sent"); // its initial values were typed too
  for (const field of form.querySelectorAll(SAVED_FIELDS)) {
    if (isChoice(field) ? field.checked : sent || field.value !== initialValue(field)) values[savedName(field)] = field.value;
  }
  window.sessionStorage.setItem(storageKey(form), JSON.stringify({ revision: revision(form), values }));
  if (!Object.keys(values).length) returnedDrafts.delete(storageKey(form)); // nothing is left of it
}

/** Return the value of a field when the page was rendered. */
function initialValue(field) {
  if (field.tagName !== "SELECT") return field.defaultValue;
  return (field.querySelector("option[selected]") ?? field.options[0]).value;
}

function restoreDraft(form) {
  const stored = window.sessionStorage.getItem(storageKey(form));
  if (!stored) return;
  const draft = JSON.parse(stored);
  const same = revision(form) === draft.revision;
  for (const field of form.querySelectorAll(SAVED_FIELDS)) {
    const value = draft.values[savedName(field)];
    if (value === undefined || (isBoundToRevision(field.name) && !same)) continue;
    if (!isChoice(field) ? value !== initialValue(field) : field.value === value && !field.defaultChecked) returnedDrafts.add(storageKey(form));
    if (!isChoice(field)) {
      field.value = value;
      if (value && field.matches("textarea, input")) field.closest("details")?.setAttribute("open", "");
    }
    else if (field.value === value && !field.disabled && !isAnswerToEarlierCall(field, same)) field.checked = true;
  }
  if (!same && form.matches("[data-decide]")) showChangesSince(form, draft.revision);
  form.querySelector("input[name='kind']:checked")?.dispatchEvent(new Event("change", { bubbles: true }));
}

function restoreDrafts() {
  for (const form of document.querySelectorAll(FORMS)) if (!form.hasAttribute("data-sent")) restoreDraft(form);
  reportChange();
}

/** Say above the button of a form that its input is from before. */
function showReturnedDrafts() {
  for (const form of document.querySelectorAll(FORMS)) {
    const remark = form.querySelector("[data-returned-draft]");
    if (remark) remark.hidden = !returnedDrafts.has(storageKey(form));
  }
}

/** Have everything that depends on the input of the forms follow it, as after typing. */
function reportChange() {
  showReturnedDrafts();
  document.body.dispatchEvent(new CustomEvent("harness:draftChanged"));
}

/** Bring a form back to how the page was rendered, and forget its input. */
function discardDraft(form) {
  form.reset();
  window.sessionStorage.removeItem(storageKey(form));
  returnedDrafts.delete(storageKey(form));
  reportChange();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[data-discard-draft]");
  if (button) discardDraft(button.form);
});

function deleteDrafts() {
  const keys = Object.keys(window.sessionStorage).filter((key) => key.startsWith(PREFIX));
  for (const key of keys) window.sessionStorage.removeItem(key);
}

for (const name of ["input", "change"]) {
  document.addEventListener(name, (event) => {
    const form = event.target.closest?.(FORMS);
    if (!form) return;
    saveDraft(form);
    showReturnedDrafts();
  });
}

// After a submission, a form that still contains the input has to be sent again; otherwise the input was recorded, or is
// shown beside the decision of somebody else. Forms that were not sent are in the response without their input.
document.body.addEventListener("htmx:afterSettle", ({ target, detail }) => {
  const comment = detail.requestConfig?.elt;
  if (target.id === "comments" && comment?.matches?.(FORMS) && !target.querySelector("[aria-invalid]")) window.sessionStorage.removeItem(storageKey(comment));
  if (target.id !== "main" || !document.querySelector(PAGES)) return;
  const sent = detail.requestConfig?.elt;
  if (sent?.matches?.(FORMS)) {
    const left = [...document.querySelectorAll(FORMS)].find((form) => form.dataset.draft === sent.dataset.draft);
    if (!left?.hasAttribute("data-sent")) window.sessionStorage.removeItem(storageKey(sent));
    returnedDrafts.delete(storageKey(sent));
  }
  restoreDrafts();
});

document.body.addEventListener("htmx:afterSwap", showReturnedDrafts); // a live update has hidden the remark

if (!live) deleteDrafts();
else {
  if (!document.querySelector(DECISION_FORMS)) window.sessionStorage.removeItem(keyOfName(window.location.pathname));
  if (!new URLSearchParams(window.location.search).has("answer")) restoreDrafts();
}
