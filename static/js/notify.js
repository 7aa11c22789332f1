// Notifications of the desktop, for who wants them and while a page is open: one for each call that begins to wait, one
// for each outage.

import { gettext } from "./words.js";

const WANTED = "notify";
const button = document.getElementById("notify");
const told = new Set();
const since = document.getElementById("live")?.dataset.shown;

const able = () => "Notification" in window && Notification.permission !== "denied";
const wanted = () => able() && Notification.permission === "granted" && window.localStorage.getItem(WANTED) === "on";

function show() {
  if (!button) return;
  button.disabled = !able();
  button.setAttribute("aria-pressed", String(wanted()));
  button.querySelector("span").textContent = !able()
    ? gettext("This browser does not allow notifications")
    : wanted()
      ? gettext("Turn off notifications")
      : gettext("Notify me while a page is open");
}

async function toggle() {
  const on = !wanted() && (await Notification.requestPermission()) === "granted";
  window.localStorage.setItem(WANTED, on ? "on" : "off");
  show();
}

function tell({ tag, title, body, url }) {
  if (told.has(tag)) return;
  told.add(tag);
  const notification = new Notification(title, { tag, body, icon: document.getElementById("favicon").href });
  notification.addEventListener("click", () => {
    window.focus();
    window.location.assign(url);
  });
}

async function ask(address) {
  const answer = await fetch(`${address}?since=${encodeURIComponent(since)}`, { headers: { "HX-Request": "true" } });
  if (answer.ok) (await answer.json()).news.forEach(tell);
}

document.body.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.id === "waiting" && since && wanted()) ask(event.target.dataset.news).catch(() => {});
});
button?.addEventListener("click", toggle);
show();
