// Edited arguments are either in the fields or in the JSON, and whoever switches takes them along: the side that is left
// has the arguments of the call again. JSON that the fields cannot show stays, and the page says why beside the switch.

import { gettext } from "../translations.js";
import { joinNumbers, splitNumbers } from "./argument_rows.js";
import { listItems } from "./list_items.js";

/** A number as it is written, so that no digit is lost. */
class WrittenNumber {
  constructor(value, context) {
    this.text = context?.source ?? String(value);
  }
}

const HIDDEN = /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/u;
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof WrittenNumber);
const isNumber = (value) => value instanceof WrittenNumber;
const isText = (value) => typeof value === "string";
const isLine = (value) => isText(value) && value !== "" && value === value.trim() && !value.includes("\n") && !HIDDEN.test(value);

const listFields = (form) => [...form.querySelectorAll(".by-field [data-stored]")];
const storedText = ({ dataset }) => dataset.stored.replaceAll("\r\n", "\n");
const listNumbers = (list) => splitNumbers(list.value);
const parseArguments = (text) => JSON.parse(text, (_name, value, context) => (typeof value === "number" ? new WrittenNumber(value, context) : value));
const writeJson = (value) => JSON.stringify(value, (_name, each) => (isNumber(each) ? (JSON.rawJSON?.(each.text) ?? Number(each.text)) : each), 2);

const isJsonChanged = (form) => form.elements.args.value !== storedText(form.elements.args);

/** Return the arguments of which the values have fields: of a question, they are parts of its value. */
const findValues = (form, args) => (form.querySelector(".by-field[data-parts]") ? args.value : args);

/** JSON as it is written in a field. */
class WrittenJson {
  constructor(text) {
    this.text = text;
  }
}

/** Return what the tool gets for the text in a field: of a number with separators the plain one, which the server has named. */
function readSentText(field) {
  const note = document.getElementById(`${field.id}-error`)?.querySelector("[data-sent]");
  return note?.dataset.typed === field.value ? note.dataset.sent : field.value;
}

/** Write the value of a field as JSON. An empty field of a value that is not a text is null, so that the JSON can be read. */
function writeFieldAsJson(field) {
  const { dataset } = field;
  const value = readSentText(field);
  if (["text", "date", "local_time"].includes(dataset.kind) || dataset.mask) return JSON.stringify(value || dataset.mask || "");
  if (dataset.kind === "texts") return JSON.stringify(listItems(value), null, 2);
  return dataset.kind === "numbers" ? `[${listItems(value).join(", ")}]` : value.trim() || "null";
}

/** Write a value whose parts may be JSON that is written in fields. Numbers are taken as they are typed, so that no digit is lost. */
function writeTree(value) {
  if (value instanceof WrittenJson) return value.text;
  if (!(isObject(value) || Array.isArray(value)) || !Object.keys(value).length) return writeJson(value);
  const [start, end] = Array.isArray(value) ? "[]" : "{}";
  const lines = Object.entries(value).map(([name, part]) => `${Array.isArray(value) ? "" : `${JSON.stringify(name)}: `}${writeTree(part)}`);
  return `${start}\n${lines.map((line) => `  ${line.replaceAll("\n", "\n  ")}`).join(",\n")}\n${end}`;
}

const readPath = ({ dataset }) => JSON.parse(dataset.path);

/** Write the arguments as JSON as the fields have them. */
function writeFieldsAsJson(form) {
  const stored = parseArguments(storedText(form.elements.args));
  const lists = [];
  for (const field of listFields(form)) {
    if (field.closest("[data-removed]")) continue;
    const path = readPath(field);
    const name = path.pop();
    const outer = path.reduce((value, each) => value[each], findValues(form, stored));
    if (field.dataset.kind === "rows") {
      lists.push([outer, name, field]);
      for (const number of listNumbers(field)) outer[name][number] ??= {};
    } else if ("optional" in field.dataset && field.value === "") delete outer[name];
    else outer[name] = new WrittenJson(writeFieldAsJson(field));
  }
  for (const [outer, name, list] of lists) outer[name] = listNumbers(list).map((number) => outer[name][number]);
  return writeTree(stored);
}

/** Return a text as the control for a date has it; null for one that it would change or drop. */
function findDateInField(value, field) {
  const copy = field.cloneNode();
  copy.value = value;
  return isText(value) && !HIDDEN.test(value) && copy.value === value ? value : null;
}

const hasEmptyOption = (field) => field.querySelector("option[value='']") !== null;

/** What the field of each kind takes: the text in it; null if it cannot show the value. The text of a missing value is empty. */
const TEXT_IN_FIELD = {
  text: (value, field) => (isText(value) && !HIDDEN.test(value) && !(field.matches("input") && value.includes("\n")) ? value : null),
  date: findDateInField,
  local_time: findDateInField,
  number: (value) => (value === null ? "" : isNumber(value) ? value.text : null),
  boolean: (value, field) => (value === null && hasEmptyOption(field) ? "" : typeof value === "boolean" ? String(value) : null),
  texts: (value) => (Array.isArray(value) && value.every(isLine) ? value.join("\n") : null),
  numbers: (value) => (Array.isArray(value) && value.every(isNumber) ? value.map(({ text }) => text).join("\n") : null),
  json: (value) => writeJson(value),
  secret: (value, { dataset }) => {
    if (value === dataset.mask) return "";
    return isText(value) && value !== "" && !value.includes("\n") ? value : null;
  },
};

function describeWhatFieldTakes(field) {
  const name = field.dataset.argument;
  if (field.matches("input") && ["text", "secret"].includes(field.dataset.kind)) return gettext("The field of “%(name)s” takes only a text of one line.", { name });
  const sentences = {
    text: () => gettext("The field of “%(name)s” takes only a text without hidden characters.", { name }),
    date: () => gettext("The field of “%(name)s” takes only a date such as 2026-12-31.", { name }),
    local_time: () => gettext("The field of “%(name)s” takes only a date and time such as 2026-12-31T08:00.", { name }),
    number: () => gettext("The field of “%(name)s” takes only a number.", { name }),
    boolean: () => gettext("The field of “%(name)s” takes only true or false.", { name }),
    texts: () => gettext("The field of “%(name)s” takes only a list of texts, each of one line.", { name }),
    numbers: () => gettext("The field of “%(name)s” takes only a list of numbers.", { name }),
  };
  return (sentences[field.dataset.kind] ?? sentences.text)();
}

class NotShownInFields extends Error {}

function readArguments(text) {
  let args;
  try {
    args = parseArguments(text);
  } catch {
    throw new NotShownInFields(gettext("The JSON has an error."));
  }
  if (!isObject(args)) throw new NotShownInFields(gettext("The JSON is not an object with a value for each argument."));
  return args;
}

/** Refuse values of which one has no field, or is missing. */
function requireSameNames(before, now, optional = []) {
  for (const name of Object.keys(before)) if (!Object.hasOwn(now, name) && !optional.includes(name)) throw new NotShownInFields(gettext("“%(name)s” is missing, and a field cannot be left out.", { name }));
  for (const name of Object.keys(now)) if (!Object.hasOwn(before, name)) throw new NotShownInFields(gettext("“%(name)s” has no field.", { name }));
}

/** Return the text of each field for the arguments in the JSON, after adding the rows that it has. Throws `NotShownInFields`. */
function readTextsOfFields(form) {
  const stored = parseArguments(storedText(form.elements.args));
  const args = readArguments(form.elements.args.value);
  requireSameNames(stored, args);
  const [before, now] = [findValues(form, stored), findValues(form, args)];
  if (!isObject(now)) throw new NotShownInFields(gettext("“%(name)s” has no field.", { name: "value" }));
  const texts = new Map(listFields(form).map((field) => [field, storedText(field)]));
  readTextsOfObject(form, [], before, now, texts);
  return texts;
}

const findField = (form, path) => listFields(form).find((field) => JSON.stringify(readPath(field)) === JSON.stringify(path));

function readTextsOfObject(form, path, before, now, texts) {
  requireSameNames(before, now);
  for (const name of Object.keys(now)) if (writeJson(now[name]) !== writeJson(before[name])) readTextsOfValue(form, [...path, name], before[name], now[name], texts);
}

function readTextsOfValue(form, path, before, now, texts) {
  const field = findField(form, path);
  const isGroup = !field && isObject(before) && isObject(now) && listFields(form).some((each) => path.every((name, index) => readPath(each)[index] === name));
  if (isGroup) readTextsOfObject(form, path, before, now, texts);
  else if (!field) throw new NotShownInFields(gettext("“%(name)s” has no field.", { name: path.at(-1) }));
  else if (field.dataset.kind === "rows") readTextsOfRows(form, field, before, now, texts);
  else texts.set(field, readTextOfField(field, now));
}

function readTextOfField(field, value) {
  const text = TEXT_IN_FIELD[field.dataset.kind](value, field);
  if (text === null) throw new NotShownInFields(describeWhatFieldTakes(field));
  return text;
}

/** Return the numbers of the rows for the items of a list: those of the call at their places, or if the list is longer or shorter, the equal ones. */
function numberItems(before, now) {
  if (now.length === before.length) return now.map((_item, index) => index);
  const texts = before.map(writeJson);
  let [next, added] = [0, before.length];
  return now.map((item) => {
    const same = texts.indexOf(writeJson(item), next);
    if (same < 0) return added++;
    next = same + 1;
    return same;
  });
}

function readTextsOfRows(form, list, before, now, texts) {
  if (!Array.isArray(now) || !now.every(isObject)) throw new NotShownInFields(gettext("The field of “%(name)s” takes only a list of objects.", { name: list.dataset.argument }));
  const numbers = numberItems(before, now);
  setValue(list, joinNumbers(numbers));
  if (splitNumbers(list.value).join() !== numbers.join()) throw new NotShownInFields(gettext("The rows of “%(name)s” have another order.", { name: list.dataset.argument }));
  texts.set(list, list.value);
  for (const [index, number] of numbers.entries()) {
    const fields = listFields(form).filter((field) => field.dataset.kind !== "rows" && isInRow(field, list, number));
    const byName = new Map(fields.map((field) => [readPath(field).at(-1), field]));
    const optional = fields.filter(({ dataset }) => "optional" in dataset).map((field) => readPath(field).at(-1));
    requireSameNames(Object.fromEntries(byName), now[index], optional);
    for (const [name, field] of byName) texts.set(field, Object.hasOwn(now[index], name) ? readTextOfField(field, now[index][name]) : "");
  }
}

function isInRow(field, list, number) {
  const [path, listPath] = [readPath(field), readPath(list)];
  return path.length === listPath.length + 2 && path[listPath.length] === number && listPath.every((name, index) => path[index] === name);
}

/** Return in how many arguments the JSON differs from the call; 1 for JSON that cannot be read. */
export function countChangesInJson(form) {
  if (!isJsonChanged(form)) return 0;
  const stored = parseArguments(storedText(form.elements.args));
  try {
    const args = readArguments(form.elements.args.value);
    return Object.keys({ ...stored, ...args }).filter((name) => writeJson(stored[name]) !== writeJson(args[name])).length;
  } catch (error) {
    if (!(error instanceof NotShownInFields)) throw error;
    return 1;
  }
}

/** Give the fields and the JSON the arguments of the call again. */
export function discardChanges(form) {
  for (const field of [...listFields(form), form.elements.args]) setValue(field, storedText(field));
}

/** Set the value of a field as if it had been typed. */
function setValue(field, value) {
  if (field.value === value) return;
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function showProblem(form, problem) {
  const place = form.querySelector("[data-stays-in-json]");
  if (!place) return;
  place.hidden = !problem;
  place.querySelector("[data-why]").textContent = problem && gettext("Still in JSON: %(problem)s", { problem });
}

/** Take changed fields over into the JSON, which takes any text. Return that nothing prevents it. */
function takeOverIntoJson(form) {
  const fields = listFields(form);
  if (!fields.some((field) => field.value !== storedText(field))) return "";
  const text = writeFieldsAsJson(form);
  for (const field of fields) setValue(field, storedText(field));
  setValue(form.elements.args, text);
  return "";
}

/** Take changed JSON over into the fields. Return why that is not possible, or an empty text. */
function takeOverIntoFields(form) {
  if (!isJsonChanged(form)) return "";
  try {
    for (const [field, text] of readTextsOfFields(form)) setValue(field, text);
  } catch (error) {
    if (!(error instanceof NotShownInFields)) throw error;
    for (const field of listFields(form)) setValue(field, storedText(field)); // the rows that the JSON has
    return error.message;
  }
  setValue(form.elements.args, storedText(form.elements.args));
  return "";
}

// A click also stands for the keys that choose a radio button. Cancelled, it leaves the choice as it is.
document.addEventListener("click", (event) => {
  const { target } = event;
  if (!target.matches?.(".arguments [name='written_as']")) return;
  const problem = target.value === "json" ? takeOverIntoJson(target.form) : takeOverIntoFields(target.form);
  showProblem(target.form, problem);
  if (problem) event.preventDefault();
});

document.addEventListener("click", ({ target }) => {
  if (!target.closest?.("button[data-undo-json]")) return;
  const { form } = target.closest("button");
  setValue(form.elements.args, storedText(form.elements.args));
  const fields = form.querySelector("[name='written_as'][value='fields']");
  fields.click();
  fields.focus();
});

document.addEventListener("input", ({ target }) => {
  if (target.name === "args" && target.form?.matches("[data-decide]")) showProblem(target.form, "");
});
document.addEventListener("reset", ({ target }) => showProblem(target, ""));
