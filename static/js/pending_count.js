// The number of calls that need a decision is shown in the title and the icon, and announced when it changes.

import { gettext, ngettext } from "./translations.js";

const element = () => document.getElementById("waiting");
let announcedCount = element()?.dataset.said;

function showCount(waiting) {
  const count = waiting.dataset.said;
  const bare = document.title.replace(/^\(\d+\+?\) /, "");
  const title = count === "0" ? bare : `(${count}) ${bare}`;
  if (title !== document.title) document.title = title;
  const icon = document.getElementById("favicon");
  if (icon.getAttribute("href") !== waiting.dataset.icon) icon.setAttribute("href", waiting.dataset.icon);
  if (count === announcedCount) return;
  announcedCount = count;
  document.getElementById("announcement").textContent =
    count === "0"
      ? gettext("No call needs a decision.")
      : ngettext("%(count)s call needs a decision.", "%(count)s calls need a decision.", parseInt(count, 10), { count: count });
}

document.body.addEventListener("htmx:afterSettle", () => {
  const waiting = element();
  if (waiting) showCount(waiting);
});
