// j and k move through a list, Enter opens (the rows are links), u goes up, ? lists the keys. On a row of the queue a
// number opens the card with that answer; on a card, c claims the call or lets it go. What has `data-key` has a key of its
// own: a link is followed, a field gets the focus.

const dialog = document.getElementById("keys");
let last = null; // the row that had the focus, and where it stood

const rows = () => [...document.querySelectorAll("a[data-row]")];
const typing = (element) => element.closest?.("input, textarea, select, dialog[open], [contenteditable]");

function move(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
  all[next].focus();
  all[next].scrollIntoView({ block: "nearest" });
}

// The card of the selected call, with that answer chosen.
function answer(number) {
  const row = document.activeElement;
  if (row.matches("a[data-row][data-answers]")) window.location.assign(`${row.href}?answer=${number}`);
}

// The page of the outage that the selected call was lost in; without one, that of the first outage.
function group() {
  const row = document.activeElement.closest("li");
  (row?.querySelector("a[data-group]") ?? document.querySelector("a[data-group]"))?.click();
}

// A button with a key of its own: it is pressed, or where its form asks for words, they are typed first.
function press(key) {
  const button = document.querySelector(`button[data-key="${CSS.escape(key)}"]`);
  const words = button?.form.querySelector("textarea");
  if (words) words.focus();
  else button?.click();
}

export const actions = {
  v: () => press("v"),
  s: () => press("s"),
  g: group,
  c: () => document.querySelector("#people button")?.click(),
  j: () => move(1),
  k: () => move(-1),
  u: () => document.querySelector("a[data-up]")?.click(),
  "?": () => dialog?.showModal(),
  1: () => answer(1),
  2: () => answer(2),
  3: () => answer(3),
  4: () => answer(4),
};

function own(key) {
  const element = [...document.querySelectorAll("a[data-key], input[data-key]")].find((each) => each.dataset.key.split(" ").includes(key));
  if (!element) return undefined;
  return element.matches("a")
    ? () => element.click()
    : () => {
        element.focus();
        element.select();
      };
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const action = own(event.key) ?? actions[event.key];
  if (!action) return;
  if ("1234".includes(event.key) && !document.activeElement.matches("[data-answers]")) return;
  event.preventDefault();
  action();
});

document.addEventListener("focusin", (event) => {
  if (event.target.matches?.("a[data-row]")) last = { row: event.target, at: rows().indexOf(event.target) };
  else if (event.target !== document.body) last = null;
});

// A row that was decided elsewhere goes away under the reader: the one that took its place gets the focus.
document.body.addEventListener("htmx:afterSettle", () => {
  if (!last || last.row.isConnected || document.activeElement !== document.body) return;
  const all = rows();
  all[Math.min(last.at, all.length - 1)]?.focus();
});
