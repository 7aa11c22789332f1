// Arguments that are edited by field: below each changed field is what it was, with a way back, and above the button is one
// line with all changes.

import { gettext } from "../translations.js";

const MOST_CHARACTERS = 40;

/** Shorten a value to one line. */
function shorten(value) {
  const line = value.replaceAll(/\s+/g, " ").trim();
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS - 1)}…` : line;
}

/** List the fields whose value is not that of the call. A text area counts each line break as one character. */
function listChangedFields(form) {
  const fields = [...form.querySelectorAll(".by-field [data-stored]")];
  return fields.filter((field) => field.value !== field.dataset.stored.replaceAll("\r\n", "\n"));
}

export function showArgumentChanges(form) {
  const line = form.querySelector("[data-changes]");
  if (!line) return;
  const changed = listChangedFields(form);
  for (const was of form.querySelectorAll("[data-was]")) was.hidden = !changed.some((field) => was.closest(".field").contains(field));
  const isEdit = form.querySelector("[name='kind'][value='edit']")?.checked && form.querySelector("[name='written_as'][value='fields']")?.checked;
  line.hidden = !isEdit || !changed.length;
  const changes = changed.map((field) => `${field.dataset.argument}: ${shorten(field.dataset.stored)} → ${shorten(field.value)}`);
  line.textContent = line.hidden ? "" : gettext("Changes %(changes)s", { changes: changes.join("; ") });
}

document.addEventListener("click", (event) => {
  const undo = event.target.closest?.("[data-undo]");
  if (!undo) return;
  const field = undo.closest(".field").querySelector("[data-stored]");
  field.value = field.dataset.stored;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});
