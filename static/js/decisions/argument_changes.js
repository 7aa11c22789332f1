// Arguments that are edited by field: each changed field has a way back. The list of changes beside the button comes from the
// server.

import "./arguments_as_json.js";
import "./list_items.js";
import { ngettext } from "../translations.js";

/** List the fields whose value is not that of the call. A text area counts each line break as one character. */
function listChangedFields(form) {
  const fields = [...form.querySelectorAll(".by-field [data-stored]")];
  return fields.filter((field) => field.value !== field.dataset.stored.replaceAll("\r\n", "\n"));
}

function countLines(area) {
  const count = area.value.split("\n").length;
  area.closest(".field").querySelector("[data-line-count]").textContent = ngettext("%(count)s line", "%(count)s lines", count);
}

export function markChangedArguments(form) {
  for (const area of form.querySelectorAll(".long-text textarea")) countLines(area);
  const changed = listChangedFields(form);
  for (const was of form.querySelectorAll("[data-was]")) was.hidden = !changed.some((field) => was.closest(".field").contains(field));
}

/** Have the server list the changes of a draft that is back, as after typing. */
export function listChangesOfDraft(form) {
  const isEdit = form.querySelector("[name='kind'][value='edit']")?.checked;
  const text = form.elements.args;
  if (!isEdit || (!listChangedFields(form).length && text.value === text.defaultValue)) return;
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
