// Arguments that are edited by field: each changed field has a way back. The list of changes beside the button comes from the
// server.

import { countChangesInJson, discardChanges } from "./arguments_as_json.js";
import { countChangedRows, isInChangedRow } from "./argument_rows.js";
import { markApprovalOfChanges } from "./approval_of_changes.js";
import "./list_items.js";
import { announce } from "../announce.js";
import { gettext, ngettext } from "../translations.js";

/**
 * List the fields whose value is not that of the call, without those in rows that are added or removed. A text area counts each
 * line break as one character.
 */
function listChangedFields(form) {
  const fields = [...form.querySelectorAll(".by-field [data-stored]")];
  return fields.filter((field) => field.value !== field.dataset.stored.replaceAll("\r\n", "\n") && !isInChangedRow(field));
}

const countChange = (field) => (field.dataset.kind === "rows" ? countChangedRows(field) : 1);

function countLines(area) {
  const count = area.value.split("\n").length;
  area.closest(".field").querySelector("[data-line-count]").textContent = ngettext("%(count)s line", "%(count)s lines", count);
}

const LIST_KINDS = ["rows", "texts", "numbers"];
const SUM_NAME = /(?:^|_)(?:amount|subtotal|sum|total)(?:_|$)/;
const toWords = (name) => name.replace(/([a-z])(?=[A-Z])|[^A-Za-z]+/g, "$1_").toLowerCase();
const isSum = ({ value, dataset }) => ["number", "text"].includes(dataset.kind) && value.length < 40 && /\d/.test(value) && SUM_NAME.test(toWords(String(JSON.parse(dataset.path).at(-1))));

/** Return the places of the objects that have a list with a changed item, a removed or an added one. */
function listPlacesOfChangedLists(changed) {
  const places = changed.flatMap(({ dataset }) => {
    const path = JSON.parse(dataset.path);
    const lists = path.flatMap((step, depth) => (typeof step === "number" ? [path.slice(0, depth)] : []));
    return LIST_KINDS.includes(dataset.kind) ? [...lists, path] : lists;
  });
  return places.map((path) => JSON.stringify(path.slice(0, -1)));
}

/** Say beside a sum that it was left as it was, although a list beside it was changed. */
function markUnchangedSums(form, changed) {
  const places = listPlacesOfChangedLists(changed);
  for (const remark of form.querySelectorAll("[data-not-changed]")) {
    const field = remark.closest(".field").querySelector("[data-stored]");
    const isBesideChange = () => places.includes(JSON.stringify(JSON.parse(field.dataset.path).slice(0, -1)));
    remark.hidden = !places.length || changed.includes(field) || !isSum(field) || !isBesideChange();
  }
}

export function markChangedArguments(form) {
  for (const area of form.querySelectorAll(".long-text textarea")) countLines(area);
  const changed = listChangedFields(form);
  for (const was of form.querySelectorAll("[data-was]")) was.hidden = !changed.some((field) => was.closest(".field").contains(field));
  markUnchangedSums(form, changed);
  showUnrecordedChanges(form);
  markApprovalOfChanges(form);
}

/** Return how many values of arguments differ between the form and the call, rows of lists counting once, which only an edit records. */
const countChanges = (form) => (form.elements.args ? listChangedFields(form).reduce((sum, field) => sum + countChange(field), 0) + countChangesInJson(form) : 0);

const findAnswer = (form) => form.querySelector("[name='kind']:checked")?.value;

/** Say beside the button how many changes the chosen answer does not record. */
function showUnrecordedChanges(form) {
  const note = form.querySelector("[data-unrecorded-changes]");
  if (!note) return;
  const count = countChanges(form);
  form.toggleAttribute("data-changes-arguments", count > 0);
  note.hidden = !count || [undefined, "edit"].includes(findAnswer(form));
  if (count) note.querySelector("[data-change-count]").textContent = ngettext("%(count)s change of the arguments is not recorded", "%(count)s changes of the arguments are not recorded", count);
}

// A call never runs without changes that were typed and not recorded: who approves it records or discards them first.
document.addEventListener(
  "submit",
  (event) => {
    const form = event.target;
    if (!form.matches("form[data-decide]") || findAnswer(form) !== "approve" || !countChanges(form)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const note = form.querySelector("[data-unrecorded-changes]");
    note.setAttribute("role", "alert");
    note.focus();
  },
  true,
);

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[name='unrecorded']");
  if (!button) return;
  event.preventDefault();
  const { form } = button;
  if (button.value === "record") {
    form.querySelector("[name='kind'][value='edit']").click();
    document.getElementById("sign-off").focus();
  } else {
    discardChanges(form);
    form.querySelector("[name='kind']:checked").focus();
  }
});

/** Have nothing drawn that previews say about input from before. At most one preview waits for another one. */
export function abortPreviews(form) {
  for (let previews = 0; previews < 2; previews++) window.htmx.trigger(form, "htmx:abort");
}

/** Have the server list the changes of a draft that is back, as after typing. */
export function listChangesOfDraft(form) {
  const isEdit = form.querySelector("[name='kind'][value='edit']")?.checked;
  const text = form.elements.args;
  const isListed = form.querySelector("#change [name='shown']") !== null;
  if (!isListed && (!isEdit || (!listChangedFields(form).length && text.value === text.defaultValue))) return;
  const ask = () => form.querySelector(".arguments").dispatchEvent(new Event("input", { bubbles: true }));
  if (document.readyState === "complete") ask();
  else window.addEventListener("load", ask, { once: true }); // nothing listens before
}

document.addEventListener("click", (event) => {
  const undo = event.target.closest?.("[data-undo]");
  if (!undo) return;
  const field = undo.closest(".field").querySelector("[data-stored]");
  field.value = field.dataset.stored;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus(); // one with a row for each item leads to the first
});

// What the rows of a list add up to becomes the value of the sum beside them, as if it had been typed.
document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-use-row-sum]");
  if (!button) return;
  const field = document.getElementById(button.dataset.useRowSum);
  field.value = button.value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus(); // the button goes with its warning
  announce(gettext("%(name)s is now %(amount)s.", { name: field.dataset.argument, amount: button.dataset.displayed }));
});
