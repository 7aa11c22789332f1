// j and k move through a list of links or of checkboxes, Enter opens a row, u goes up, ? lists the keys, Escape closes a menu.
// While a menu with a form is open, the other keys do nothing. On a row of the queue
// a number opens the card with that answer, or chooses it where the row or its form has a field for it; on a card, c claims or releases the call, and n opens the next one. An element with `data-key` has its
// own key: a link is followed, a field gets the focus. On a page without a search field, / opens the list of sessions with its field.
// Beside a text that was unfolded, no key is a shortcut.

import { isBesideUnfoldedText } from "./unfolded_texts.js";

const dialog = document.getElementById("keys");
let focusedRow = null; // the focused row and its index
let textTypedAt = -Infinity; // time of the last key that was part of a text and not a shortcut

const REST_AFTER_TEXT = 1000; // milliseconds until keys are shortcuts again

const rows = () => [...document.querySelectorAll(":is(a, input)[data-row]")];
// In a form about several calls, a checkbox or a radio button takes no text.
const TYPED = "input:not([data-row], [data-decide-several] :is([type='checkbox'], [type='radio']))";
const isTyping = (element) =>
  element.closest?.(`${TYPED}, textarea, select, dialog[open], [contenteditable]`) || isBesideUnfoldedText(element) || document.querySelector("details.menu[open] form");

function moveFocus(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
  all[next].focus();
  all[next].scrollIntoView({ block: "nearest" });
}

/** Return the form whose selected calls get one answer, wherever the focus is; null on other pages. */
const findFormOfSelectedCalls = () => document.querySelector("form[data-decide-several]:has(input[name='answer'])");

/** Choose an answer in the row of the focused call, or for all or the selected calls, or open the card with that answer selected. */
function chooseAnswer(number) {
  const row = document.activeElement;
  const form = findFormOfSelectedCalls();
  const select = row.closest(".answer-row")?.querySelector(".answer select");
  if (select) {
    const option = [...select.options].filter((each) => each.value && each.value !== "undecided")[number - 1];
    if (!option) return;
    select.value = option.value;
    select.dispatchEvent(new Event("change", { bubbles: true }));
  } else if (form) chooseAnswerForSelectedCalls(form, number);
  else if (row.matches("a[data-row][data-answers]")) window.location.assign(`${row.href}?answer=${number}`);
}

/** Choose the answer for the selected calls of a list; without a selected call, it would be for none. */
function chooseAnswerForSelectedCalls(form, number) {
  const option = form.querySelectorAll("input[name='answer']")[number - 1];
  if (!option || !form.querySelector("li input[name='call']:checked")) return;
  option.click();
  form.elements.reason.focus();
}

/** Open the outage of the focused call, or the first outage. */
function openOutage() {
  const row = document.activeElement.closest("li");
  (row?.querySelector("a[data-group]") ?? document.querySelector("a[data-group]"))?.click();
}

/** Click the button with this key, or focus the text field of its form. */
function pressKeyButton(key) {
  const button = document.querySelector(`button[data-key="${CSS.escape(key)}"]`);
  const words = button?.form.querySelector("textarea");
  if (words) words.focus();
  else button?.click();
}

/** Open the list of sessions at its search field, which gets the focus as the target of the address. */
function openSearch() {
  const list = document.querySelector("a[data-search-page]");
  if (list) window.location.assign(new URL("#q", list.href));
}

export const actions = {
  v: () => pressKeyButton("v"),
  s: () => pressKeyButton("s"),
  g: openOutage,
  c: () => document.querySelector("#people button")?.click(),
  j: () => moveFocus(1),
  k: () => moveFocus(-1),
  u: () => document.querySelector("a[data-up]")?.click(),
  "?": () => dialog?.showModal(),
  "/": openSearch,
  1: () => chooseAnswer(1),
  2: () => chooseAnswer(2),
  3: () => chooseAnswer(3),
  4: () => chooseAnswer(4),
};

function customAction(key) {
  const element = [...document.querySelectorAll(":is(a, input, select)[data-key]")].find((each) => each.dataset.key.split(" ").includes(key));
  if (!element) return undefined;
  return element.matches("a")
    ? () => element.click()
    : () => {
        for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
        element.focus({ preventScroll: isInView(element) });
        element.select?.();
      };
}

/** Return whether all of an element is in sight. A field of a sticky bar is, wherever its page is scrolled. */
function isInView(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return top >= 0 && bottom <= window.innerHeight;
}

/**
 * Return whether a key belongs to a text that is typed although no text field has the focus. Where one answer can decide
 * many calls, no letter or digit of such a text does anything.
 */
function isPartOfText(event, action) {
  if (event.key.length !== 1 || !document.querySelector("form[data-decide-several]")) return false;
  const isAfterText = event.timeStamp - textTypedAt < REST_AFTER_TEXT;
  if (!isAfterText && (action || event.key === " ")) return false;
  textTypedAt = event.timeStamp;
  return true;
}

function showThatTextWasIgnored(isIgnored) {
  for (const remark of document.querySelectorAll("[data-ignored-text]")) remark.hidden = !isIgnored;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isOnAnswer = event.target.matches?.(".answer-row .answer select") ?? false;
  const isAnswering = isOnAnswer && "1234".includes(event.key);
  if (isTyping(event.target) && !isOnAnswer) return;
  const action = isOnAnswer && !isAnswering ? undefined : (customAction(event.key) ?? actions[event.key]);
  const isIgnored = isPartOfText(event, action);
  showThatTextWasIgnored(isIgnored);
  if (isIgnored) event.preventDefault();
  if (isIgnored || !action) return;
  const isForFocused = isAnswering || document.activeElement.closest("[data-answers], .answer-row") || findFormOfSelectedCalls();
  if ("1234".includes(event.key) && !isForFocused) {
    // Before a call of several is chosen, the number of an answer chooses the first, and answers nothing yet.
    if (document.querySelector(".answer-row [data-row]")) moveFocus(1);
    return;
  }
  event.preventDefault();
  action();
});

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.open = false;
}

document.addEventListener("keydown", (event) => {
  const menu = document.querySelector("details.menu[open]");
  if (event.key !== "Escape" || !menu || document.querySelector("dialog[open]")) return;
  closeMenus();
  menu.querySelector("summary").focus();
});

document.addEventListener("click", (event) => {
  if (event.isTrusted) closeMenus(event.target.closest?.("details.menu"));
});

// A menu with a form opens with the focus in its first text, or before that in a required choice that is not made yet.
document.addEventListener("click", (event) => {
  const menu = event.target.closest?.("details.menu > summary")?.parentElement;
  if (!menu || menu.open) return;
  menu.addEventListener("toggle", () => menu.querySelector("select:invalid, input:is(:not([type]), [type='text'], [type='search']), textarea")?.focus(), { once: true });
});

document.addEventListener("focusin", (event) => {
  if (event.target.matches?.("[data-row]")) focusedRow = { row: event.target, at: rows().indexOf(event.target) };
  else if (event.target !== document.body) focusedRow = null;
});

// If the focused row disappears because it was decided elsewhere, the row in its place gets the focus. A page that the
// reader's own decisions brought has its own place for it.
document.body.addEventListener("htmx:afterSwap", ({ target }) => {
  if (target.id === "main") focusedRow = null; // before any part of the page settles
});
document.body.addEventListener("htmx:afterSettle", () => {
  if (!focusedRow || focusedRow.row.isConnected || document.activeElement !== document.body) return;
  const all = rows();
  all[Math.min(focusedRow.at, all.length - 1)]?.focus();
});
