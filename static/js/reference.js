// Page of the HTTP API: search within the page, and the current operation in the contents.

import { gettext, ngettext } from "./translations.js";

const field = document.getElementById("find");
const list = document.querySelector(".contents details");
const operations = [...document.querySelectorAll(".operation")];
const links = new Map([...document.querySelectorAll(".contents li a")].map((link) => [link.hash.slice(1), link]));
const narrow = matchMedia("(max-width: 900px)");

function openContents() {
  list.open = !narrow.matches;
}

/** Show the operations whose text has each of the words. */
function find() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let number = 0;
  for (const operation of operations) {
    const text = operation.textContent.toLowerCase();
    operation.hidden = !words.every((word) => text.includes(word));
    links.get(operation.id).parentElement.hidden = operation.hidden;
    if (!operation.hidden) number += 1;
  }
  for (const topic of document.querySelectorAll(".topic")) {
    topic.hidden = !topic.querySelector(".operation:not([hidden])");
    links.get(topic.getAttribute("aria-labelledby")).parentElement.hidden = topic.hidden;
  }
  document.querySelector(".introduction").hidden = words.length > 0;
  links.get("introduction").parentElement.hidden = words.length > 0;
  document.getElementById("found").textContent = words.length ? announceNumber(number) : "";
}

function announceNumber(number) {
  if (!number) return gettext("No operation has these words.");
  return ngettext("%(count)s operation found", "%(count)s operations found", number);
}

/** Mark the topmost operation in sight. */
function markCurrent() {
  const current = operations.find((one) => !one.hidden && one.getBoundingClientRect().bottom > 120);
  for (const [anchor, link] of links) {
    if (anchor === current?.id && current.getBoundingClientRect().top < 200) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

field.addEventListener("input", find);
field.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  field.value = "";
  find();
});
list.addEventListener("click", (event) => {
  if (narrow.matches && event.target.closest("a")) list.open = false;
});
addEventListener("scroll", () => requestAnimationFrame(markCurrent), { passive: true });
narrow.addEventListener("change", openContents);
openContents();
markCurrent();
if (field.value) find();
