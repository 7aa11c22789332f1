// Desktop notifications while a page is open, if the reader has enabled them: one for each new pending call, one for each
// outage, and one for each comment that mentions them.

import { gettext } from "./translations.js";

const STORAGE_KEY = "notify";
const button = document.getElementById("notify");
const notifiedTags = new Set();
const live = document.getElementById("live");
const since = live?.dataset.shown;

const isSupported = () => "Notification" in window && Notification.permission !== "denied";
const isEnabled = () => isSupported() && Notification.permission === "granted" && window.localStorage.getItem(STORAGE_KEY) === "on";

function renderButton() {
  if (!button) return;
  button.hidden = !isSupported();
  button.setAttribute("aria-pressed", String(isEnabled()));
  button.querySelector("span").textContent = isEnabled() ? gettext("Turn off notifications") : gettext("Notify me while a page is open");
}

async function toggle() {
  const on = !isEnabled() && (await Notification.requestPermission()) === "granted";
  window.localStorage.setItem(STORAGE_KEY, on ? "on" : "off");
  renderButton();
}

function notify({ tag, title, body, url }) {
  if (notifiedTags.has(tag)) return;
  notifiedTags.add(tag);
  const notification = new Notification(title, { tag, body, icon: document.getElementById("favicon").href });
  notification.addEventListener("click", () => {
    window.focus();
    window.location.assign(url);
  });
}

async function fetchNews(address) {
  const answer = await fetch(`${address}?since=${encodeURIComponent(since)}`, { headers: { "HX-Request": "true", "Harness-Reader": live.dataset.reader } });
  if (answer.ok) (await answer.json()).news.forEach(notify);
}

document.body.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.id === "waiting" && since && isEnabled()) fetchNews(event.target.dataset.news).catch(() => {});
});
button?.addEventListener("click", toggle);
renderButton();
