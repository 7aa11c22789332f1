// A list of objects among the arguments has a row of fields for each item. Its hidden field has the numbers of the rows that the
// changed list has, separated by commas: it is what is sent and what drafts keep, and the rows follow it. A row of the call that it
// does not name is removed, and can come back; one that the call does not have was added.

import { showListsAsRows } from "./list_items.js";
import { gettext } from "../translations.js";

const LISTS = ".by-field input[data-kind='rows']";
const MOST_FIELDS = 600; // in the form, as the server takes no more
const NUMBER = "N"; // in the blank row

export const splitNumbers = (text) => text.split(",").filter(Boolean).map(Number);
export const joinNumbers = (numbers) => [...new Set(numbers)].sort((one, other) => one - other).join(",");
const storedNumbers = (list) => splitNumbers(list.dataset.stored);
const findGroup = (list) => list.closest("[data-argument-rows]");
const findList = (element) => element.closest("[data-argument-rows]").querySelector(LISTS);
const findRows = (list) => [...findGroup(list).querySelectorAll(":scope > [data-row]")];
const findRow = (list, number) => findRows(list).find((row) => Number(row.dataset.row) === number);
const listFields = (row) => [...row.querySelectorAll("[data-stored]")];
const isFilledIn = (row) => listFields(row).some(({ value }) => value !== "");

export const listRowLists = (form = document) => [...form.querySelectorAll(LISTS)];

/** Return whether a field is in a row that is added or removed, which counts as one change with all that is in it. */
export function isInChangedRow(field) {
  const row = field.closest("[data-row]");
  return row !== null && (row.hasAttribute("data-removed") || !storedNumbers(findList(row)).includes(Number(row.dataset.row)));
}

/** Return how many rows of a list are added or removed. */
export function countChangedRows(list) {
  const [now, before] = [splitNumbers(list.value), storedNumbers(list)];
  return now.filter((number) => !before.includes(number)).length + before.filter((number) => !now.includes(number)).length;
}

/** Describe the rows that a list has by their numbers, for people. */
export const describeRows = (text) => gettext("rows %(numbers)s", { numbers: splitNumbers(text).map((number) => number + 1).join(", ") || "–" });

const nameRow = (list, number) => gettext("%(name)s, row %(number)s", { name: list.dataset.argument, number });

/** Replace the number of the blank row in a text: in names and ids, in paths, and from 1 in what people read. */
function setNumber(text, list, number) {
  const key = list.name.replace(/-rows$/, "");
  return text
    .replaceAll(`${key}-${NUMBER}`, `${key}-${number}`)
    .replaceAll(`"${NUMBER}"`, String(number))
    .replaceAll(nameRow(list, NUMBER), nameRow(list, number + 1));
}

function buildRow(list, number) {
  const row = findGroup(list).querySelector(":scope > template").content.firstElementChild.cloneNode(true);
  for (const element of [row, ...row.querySelectorAll("*")]) for (const { name, value } of [...element.attributes]) element.setAttribute(name, setNumber(value, list, number));
  row.dataset.row = number;
  const values = { name: list.dataset.argument, number: number + 1 };
  for (const undo of row.querySelectorAll("[data-undo] .visually-hidden")) undo.textContent = setNumber(undo.textContent, list, number);
  row.querySelector(".row-number").textContent = values.number;
  row.querySelector("[data-remove-row]").setAttribute("aria-label", gettext("Remove row %(number)s of %(name)s", values));
  row.querySelector(".removed-row .muted").textContent = gettext("Row %(number)s is removed.", values);
  row.querySelector("[data-undo-row] .visually-hidden").textContent = ` ${gettext("removing row %(number)s of %(name)s", values)}`;
  return row;
}

/** Show the rows that a list has. One that was added and is removed goes, unless it has a text that can come back. */
export function showRows(list) {
  const [now, before] = [splitNumbers(list.value), storedNumbers(list)];
  for (const row of findRows(list)) {
    const number = Number(row.dataset.row);
    const isListed = now.includes(number);
    if (!isListed && !before.includes(number) && !isFilledIn(row)) row.remove();
    else row.toggleAttribute("data-removed", !isListed);
  }
  const end = findGroup(list).querySelector(":scope > template");
  const missing = now.filter((number) => !findRow(list, number));
  end.before(...missing.map((number) => buildRow(list, number)));
  if (missing.length) showListsAsRows();
  findGroup(list).querySelector("[data-add-row]").disabled = list.form.elements.length > MOST_FIELDS;
}

function showAllRows() {
  for (const list of listRowLists()) showRows(list);
}

/** Set the numbers of the rows of a list as if they had been typed. */
function setNumbers(list, numbers) {
  list.value = joinNumbers(numbers);
  list.dispatchEvent(new Event("input", { bubbles: true }));
}

const findFirstField = (row) => row && listFields(row).find((field) => field.checkVisibility());

function addRow(list) {
  const numbers = [...storedNumbers(list), ...findRows(list).map((row) => Number(row.dataset.row))];
  const number = Math.max(...numbers) + 1;
  setNumbers(list, [...splitNumbers(list.value), number]);
  findFirstField(findRow(list, number))?.focus();
}

function removeRow(row) {
  const list = findList(row);
  const next = row.nextElementSibling.matches("[data-row]") ? row.nextElementSibling : row.previousElementSibling;
  setNumbers(list, splitNumbers(list.value).filter((number) => number !== Number(row.dataset.row)));
  const following = row.isConnected ? row.querySelector("[data-undo-row]") : (findFirstField(next) ?? findGroup(list).querySelector("[data-add-row]"));
  following.focus();
}

function undoRow(row) {
  const list = findList(row);
  setNumbers(list, [...splitNumbers(list.value), Number(row.dataset.row)]);
  findFirstField(row)?.focus();
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-add-row], [data-remove-row], [data-undo-row]");
  if (!button) return;
  if (button.matches("[data-add-row]")) addRow(findList(button));
  else if (button.matches("[data-remove-row]")) removeRow(button.closest("[data-row]"));
  else undoRow(button.closest("[data-row]"));
});

// The value of a list was set, or a row that the list does not have was emptied.
document.addEventListener(
  "input",
  ({ target }) => {
    if (target.closest?.("[data-argument-rows]")) showRows(findList(target));
  },
  true,
);

/** Return the texts in the rows that the reader has added to a list, by their numbers. */
function listAddedTexts(list) {
  const added = splitNumbers(list.value).filter((number) => !storedNumbers(list).includes(number));
  return added.map((number) => [number, listFields(findRow(list, number)).map(({ value }) => value)]);
}

/** Show the rows again that the reader has added, with their texts, after those that the call has now. */
function restoreAddedRows(list, storedBefore, added) {
  const [before, first] = [storedNumbers(list), Math.max(-1, ...storedNumbers(list)) + 1];
  const isSame = storedBefore === list.dataset.stored;
  const numbers = added.map(([number], index) => (isSame ? number : first + index));
  list.value = joinNumbers([...(isSame ? splitNumbers(list.value) : before), ...numbers]);
  showRows(list);
  for (const [index, [, texts]] of added.entries()) {
    for (const [place, field] of listFields(findRow(list, numbers[index])).entries()) field.value ||= texts[place] ?? "";
  }
}

// A live update has the rows of the call alone.
let changedLists = [];
document.body.addEventListener("htmx:beforeSwap", () => {
  const lists = listRowLists().filter((list) => list.value !== list.dataset.stored);
  changedLists = lists.map((list) => ({ name: list.name, stored: list.dataset.stored, added: listAddedTexts(list) }));
});
document.body.addEventListener("htmx:afterSwap", ({ target }) => {
  for (const { name, stored, added } of target.id === "main" ? [] : changedLists) {
    const list = listRowLists().find((each) => each.name === name);
    if (list) restoreAddedRows(list, stored, added);
  }
  showAllRows();
});
document.body.addEventListener("harness:draftChanged", showAllRows);
showAllRows();
