// Arguments that are edited by field: below each changed field is what it was, with a way back, and above the button is one
// line with all changes.

import { gettext } from "../translations.js";

const MOST_CHARACTERS = 40;
const AMOUNT = /^-?\d{1,12}(?:\.(\d{1,3}))?$/;

/** Shorten a value to one line. */
function shorten(value) {
  const line = value.replaceAll(/\s+/g, " ").trim();
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS - 1)}…` : line;
}

/** Format a number as the page displays amounts: with separators, and with cents unless it is whole. */
function formatAmount(text) {
  const places = text.match(AMOUNT)[1]?.length ?? 0;
  return Number(text).toLocaleString(document.documentElement.lang, { minimumFractionDigits: places && Math.max(2, places) });
}

/** Describe the change of a field: an amount in the form in which the page displays it, if that shows the difference, and
 * a text without a visible character as empty. A new secret is not repeated. */
function describeChange(field) {
  if (field.dataset.mask) return gettext("%(name)s: a new value", { name: field.dataset.argument });
  const stored = [field.dataset.stored, field.value];
  const displayed = field.dataset.amount !== undefined && stored.every((text) => AMOUNT.test(text)) ? stored.map(formatAmount) : stored;
  const [before, after] = (displayed[0] === displayed[1] ? stored : displayed).map((text) => shorten(text) || gettext("(empty)"));
  return `${field.dataset.argument}: ${before} → ${after}`;
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
  line.textContent = line.hidden ? "" : gettext("Changes %(changes)s", { changes: changed.map(describeChange).join("; ") });
}

document.addEventListener("click", (event) => {
  const undo = event.target.closest?.("[data-undo]");
  if (!undo) return;
  const field = undo.closest(".field").querySelector("[data-stored]");
  field.value = field.dataset.stored;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});

/** Write the arguments as JSON as the fields have them. Numbers are taken as they are typed, so that no digit is lost. */
function writeFieldsAsJson(form) {
  const fields = [...form.querySelectorAll(".by-field [data-stored]")];
  const writeValue = ({ dataset, value }) => (dataset.kind === "text" || dataset.mask ? JSON.stringify(value || dataset.mask || "") : value);
  const lines = fields.map((field) => `  ${JSON.stringify(field.dataset.argument)}: ${writeValue(field)}`);
  return `{\n${lines.join(",\n")}\n}`;
}

// Who goes on in JSON takes the changes along, unless the JSON has been changed, too, or the fields are parts of a question.
document.addEventListener("change", ({ target, isTrusted }) => {
  if (!isTrusted || !target.matches?.("[name='written_as'][value='json']")) return;
  if (target.form.querySelector(".by-field[data-parts]")) return;
  const text = target.form.elements.args;
  if (!listChangedFields(target.form).length || text.value !== text.defaultValue) return;
  text.value = writeFieldsAsJson(target.form);
  text.dispatchEvent(new Event("input", { bubbles: true }));
});
