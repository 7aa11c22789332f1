// A list of texts or numbers among the arguments has one item in each line of a text area. Here each item is a row that can be
// changed and removed; the text area is what is sent, and what drafts keep.

import { gettext } from "../translations.js";

const LISTS = ".by-field textarea:is([data-kind='texts'], [data-kind='numbers'])";
const MOST_ROWS = 60;

export const listItems = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const findRows = (area) => area.parentElement.querySelector("[data-items]");
const findArea = (row) => row.closest(".field").querySelector(LISTS);
const listInputs = (rows) => [...rows.querySelectorAll("input")];

function buildRow(area, item) {
  const row = document.createElement("li");
  const input = document.createElement("input");
  input.className = "input mono";
  input.autocomplete = "off";
  input.setAttribute("value", item); // its default: the reader has not typed it
  if (area.dataset.kind === "numbers") input.inputMode = "decimal";
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "btn plain";
  remove.dataset.removeItem = "";
  remove.textContent = "×";
  row.append(input, remove);
  return row;
}

/** Name the rows by their places in the list. */
function nameRows(area, rows) {
  const name = area.dataset.argument;
  for (const [index, input] of listInputs(rows).entries()) {
    input.id = `${area.id}-item-${index}`;
    input.setAttribute("aria-label", gettext("%(name)s, item %(number)s", { name, number: index + 1 }));
    input.nextElementSibling.setAttribute("aria-label", gettext("Remove item %(number)s of %(name)s", { name, number: index + 1 }));
  }
}

/** Build the rows of a list that has none, or others than its text area has lines. */
function showAsRows(area) {
  const items = listItems(area.value);
  const old = findRows(area);
  if (old && listItems(listInputs(old).map((input) => input.value).join("\n")).join("\n") === items.join("\n")) return;
  old?.remove();
  const fits = items.length <= MOST_ROWS;
  area.classList.toggle("visually-hidden", fits);
  area.tabIndex = fits ? -1 : 0;
  area.ariaHidden = fits ? "true" : null;
  area.closest(".field").querySelector("[data-one-per-line]").hidden = fits;
  if (!fits) return;
  const rows = document.createElement("div");
  rows.dataset.items = "";
  const list = document.createElement("ol");
  list.append(...items.map((item) => buildRow(area, item)));
  const add = document.createElement("button");
  add.type = "button";
  add.className = "btn plain";
  add.dataset.addItem = "";
  add.textContent = gettext("Add an item");
  rows.append(list, add);
  area.after(rows);
  nameRows(area, rows);
}

export function showListsAsRows() {
  for (const area of document.querySelectorAll(LISTS)) showAsRows(area);
}

/** Take the rows over into the text area, as if it had been typed there. */
function takeOver(area) {
  area.value = listItems(listInputs(findRows(area)).map((input) => input.value).join("\n")).join("\n");
  nameRows(area, findRows(area));
  area.dispatchEvent(new Event("input", { bubbles: true }));
}

function addRow(area, after = null, item = "") {
  const row = buildRow(area, item);
  if (after) after.after(row);
  else findRows(area).querySelector("ol").append(row);
  takeOver(area);
  return row;
}

function removeRow(row) {
  const area = findArea(row);
  const next = row.nextElementSibling ?? row.previousElementSibling;
  const following = next?.querySelector("input") ?? findRows(area).querySelector("[data-add-item]");
  row.remove();
  takeOver(area);
  following.focus();
}

document.addEventListener(
  "input",
  ({ target }) => {
    const rows = target.closest?.("[data-items]");
    if (rows) takeOver(findArea(rows));
    else if (target.matches?.(LISTS)) showAsRows(target); // its value was set
  },
  true,
);

document.addEventListener("click", ({ target }) => {
  const remove = target.closest?.("[data-remove-item]");
  if (remove) removeRow(remove.closest("li"));
  const add = target.closest?.("[data-add-item]");
  if (add) addRow(findArea(add)).querySelector("input").focus();
});

// Enter adds an item below, and Backspace removes an empty one.
document.addEventListener("keydown", (event) => {
  const row = event.target.matches?.("[data-items] input") ? event.target.closest("li") : null;
  if (!row || event.ctrlKey || event.metaKey || event.isComposing) return;
  if (event.key === "Enter") {
    event.preventDefault();
    addRow(findArea(row), row).querySelector("input").focus();
  } else if (event.key === "Backspace" && !event.target.value) {
    event.preventDefault();
    removeRow(row);
  }
});

// Several lines that are pasted are several items.
document.addEventListener("paste", (event) => {
  if (!event.target.matches?.("[data-items] input")) return;
  const items = listItems(event.clipboardData.getData("text"));
  if (items.length < 2) return;
  event.preventDefault();
  let row = event.target.closest("li");
  if (!event.target.value) event.target.value = items.shift();
  for (const item of items) row = addRow(findArea(row), row, item);
  takeOver(findArea(row));
  row.querySelector("input").focus();
});

// An error or the label of the field leads to its first row.
document.addEventListener("focusin", ({ target }) => {
  if (target.matches?.(LISTS)) findRows(target)?.querySelector("input, [data-add-item]").focus();
});

document.body.addEventListener("htmx:afterSettle", showListsAsRows);
document.body.addEventListener("harness:draftChanged", showListsAsRows);
showListsAsRows();
