// Unfinished input of forms about decisions is kept in the tab over reloads, lost connections and other pages, until it is
// recorded or the reader signs out. `data-draft` names the form, over all responses that contain it. Somebody else who signs in
// does not get it: it has the key of its user. Pages without live parts, as those that set up a second factor, keep it too.

import { abortPreviews } from "./argument_changes.js";
import { describeRows, listRowLists, showRows } from "./argument_rows.js";

const PREFIX = "decision-draft:";
const live = document.getElementById("live");
const { user } = document.body.dataset; // undefined if nobody is signed in
const SAVED_FIELDS = "textarea, select, input[type='text'], input[name]:not([type]), input[data-stored], input[type='radio'], input[type='checkbox'][name='call']";
const FORMS = "form[data-draft]";
const DECISION_FORMS = "form[data-draft]:is([data-decide], [data-decide-several])";
const PAGES = "[data-state], #outage, #same-approvals"; // pages of calls, with or without a form that is left

const keyOfName = (name) => `${PREFIX}${user}:${name}`;
const storageKey = (form) => keyOfName(form.dataset.draft);
const returnedDrafts = new Set(); // keys of the drafts with which the forms of this page were opened
const earlierChanges = new Map(); // by key of a draft: values by argument that it has of the call before that changed; "args" is the JSON
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
  const changes = {};
  for (const field of form.querySelectorAll(SAVED_FIELDS)) {
    if (!isFilledIn(field)) continue;
    values[savedName(field)] = field.value;
    if (field.dataset.stored !== undefined) changes[argumentName(field)] = field.value;
  }
  const earlier = earlierChanges.get(storageKey(form));
  window.sessionStorage.setItem(storageKey(form), JSON.stringify({ revision: revision(form), values, changes, earlier }));
  if (!Object.keys(values).length && !earlier) returnedDrafts.delete(storageKey(form)); // nothing is left of it
}

/** Return whether a field has input to keep. The initial values of a form that was sent were typed too. */
function isFilledIn(field) {
  if (isChoice(field)) return field.checked;
  if (field.dataset.stored !== undefined) return field.value !== field.dataset.stored.replaceAll("\r\n", "\n");
  return field.form.hasAttribute("data-sent") || field.value !== initialValue(field);
}

/** Return whether a field is the answer about a call: without any text, it is no draft that anybody misses. */
const isAnswer = (field) => field.matches("[type='radio'][name='kind']");

/** Return under which name the changed value of an argument is kept when the call changes, and the fields with it. */
const argumentName = (field) => field.dataset.argument ?? field.name;

const findArgumentField = (form, name) => [...form.querySelectorAll("[data-stored]")].find((field) => argumentName(field) === name);

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
  const earlier = { ...draft.earlier, ...(same ? {} : draft.changes) };
  if (Object.keys(earlier).length) {
    earlierChanges.set(storageKey(form), earlier);
    returnedDrafts.add(storageKey(form));
  }
  if (same) restoreRows(form, draft.values);
  for (const field of form.querySelectorAll(SAVED_FIELDS)) {
    const value = draft.values[savedName(field)];
    if (value === undefined || (isBoundToRevision(field.name) && !same)) continue;
    if (!isAnswer(field) && (isChoice(field) ? field.value === value && !field.defaultChecked : value !== initialValue(field))) {
      returnedDrafts.add(storageKey(form));
    }
    if (!isChoice(field)) {
      field.value = value;
      if (field.matches("textarea, input[type='text'], input:not([type])")) field.setSelectionRange(value.length, value.length); // who goes on typing
      if (value && field.matches("textarea, input")) field.closest("details")?.setAttribute("open", "");
    }
    else if (field.value === value && !field.disabled && !isAnswerToEarlierCall(field, same)) field.checked = true;
  }
  if (!same && form.matches("[data-decide]")) showChangesSince(form, draft.revision);
  form.querySelector("input[name='kind']:checked")?.dispatchEvent(new Event("change", { bubbles: true }));
}

/** Show the rows of arguments that a draft has, so that there are fields for what was typed in them. */
function restoreRows(form, values) {
  for (const list of listRowLists(form)) {
    if (values[savedName(list)] === undefined) continue;
    list.value = values[savedName(list)];
    showRows(list);
    returnedDrafts.add(storageKey(form));
  }
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

/** List the changes of a draft that were made to the call before that changed, which its writer uses again or discards. */
function showEarlierChanges() {
  for (const form of document.querySelectorAll(FORMS)) {
    const note = form.querySelector("[data-earlier-changes]");
    if (!note) continue;
    const earlier = Object.entries(earlierChanges.get(storageKey(form)) ?? {});
    note.hidden = !earlier.length;
    note.querySelector("ul").replaceChildren(...earlier.map(([name, value]) => buildEarlierChange(form, name, value)));
    note.querySelector("[data-use-earlier]").hidden = !earlier.some(([name]) => findArgumentField(form, name));
  }
}

function buildEarlierChange(form, name, value) {
  const field = findArgumentField(form, name);
  const item = document.createElement("li");
  const label = document.createElement("b");
  label.className = "mono";
  label.textContent = name === "args" ? "JSON" : name;
  item.append(label, ` ${field?.dataset.mask ?? (field?.dataset.kind === "rows" ? describeRows(value) : value)}`);
  return item;
}

/** Put the changes of a draft into the fields that the call has now. What has no field any more stays in the list. */
function useEarlierChanges(form) {
  const left = { ...earlierChanges.get(storageKey(form)) };
  let first = null;
  for (const [name, value] of Object.entries(left)) {
    const field = findArgumentField(form, name);
    if (!field) continue;
    if (name === "args") form.querySelector("[name='written_as'][value='json']")?.click();
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    delete left[name];
    first ??= field;
  }
  form.querySelector("[name='kind'][value='edit']").click();
  dropEarlierChanges(form, left);
  first?.focus();
}

function dropEarlierChanges(form, left = {}) {
  if (Object.keys(left).length) earlierChanges.set(storageKey(form), left);
  else earlierChanges.delete(storageKey(form));
  saveDraft(form);
  reportChange();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button:is([data-use-earlier], [data-drop-earlier])");
  if (!button) return;
  if (button.matches("[data-use-earlier]")) useEarlierChanges(button.form);
  else {
    dropEarlierChanges(button.form);
    button.form.elements.reason.focus();
  }
});

/** Have everything that depends on the input of the forms follow it, as after typing. */
function reportChange() {
  showReturnedDrafts();
  showEarlierChanges();
  document.body.dispatchEvent(new CustomEvent("harness:draftChanged"));
}

function forgetDraft(form) {
  window.sessionStorage.removeItem(storageKey(form));
  earlierChanges.delete(storageKey(form));
  returnedDrafts.delete(storageKey(form));
}

/** Bring a form back to how the page was rendered, and forget its input. */
function discardDraft(form) {
  abortPreviews(form);
  form.reset();
  forgetDraft(form);
  reportChange();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[data-discard-draft]");
  if (button) discardDraft(button.form);
});

/** Delete the drafts of everybody but the user who is signed in. */
function deleteDraftsOfOthers() {
  const keys = Object.keys(window.sessionStorage).filter((key) => key.startsWith(PREFIX) && !key.startsWith(keyOfName("")));
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
    if (!left?.hasAttribute("data-sent")) forgetDraft(sent);
    returnedDrafts.delete(storageKey(sent));
  }
  restoreDrafts();
});

document.body.addEventListener("htmx:afterSwap", () => {
  showReturnedDrafts(); // a live update has hidden the remark, and the list
  showEarlierChanges();
});

if (!live) deleteDraftsOfOthers();
else {
  if (!document.querySelector(DECISION_FORMS)) window.sessionStorage.removeItem(keyOfName(window.location.pathname));
  if (!new URLSearchParams(window.location.search).has("answer")) restoreDrafts();
}
