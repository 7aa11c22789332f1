// How many calls need a decision: in the title, on the icon of the tab, and said aloud when it changes.

import { gettext, ngettext } from "./words.js";

const element = () => document.getElementById("waiting");
let known = element()?.dataset.said;

function update(waiting) {
  const said = waiting.dataset.said;
  const bare = document.title.replace(/^\(\d+\+?\) /, "");
  const title = said === "0" ? bare : `(${said}) ${bare}`;
  if (title !== document.title) document.title = title;
  const icon = document.getElementById("favicon");
  if (icon.getAttribute("href") !== waiting.dataset.icon) icon.setAttribute("href", waiting.dataset.icon);
  if (said === known) return;
  known = said;
  document.getElementById("announcement").textContent =
    said === "0"
      ? gettext("No call needs a decision.")
      : ngettext("%(count)s call needs a decision.", "%(count)s calls need a decision.", parseInt(said, 10), { count: said });
}

document.body.addEventListener("htmx:afterSettle", () => {
  const waiting = element();
  if (waiting) update(waiting);
});
