// Keeps "3 min ago" true while a page is open.

import { gettext, ngettext } from "./words.js";

const UNITS = [
  [86400, "day"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

function split(seconds) {
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? UNITS.at(-1);
  return [Math.floor(seconds / size), unit];
}

function ago(seconds) {
  if (seconds < 5) return gettext("just now");
  const [count, unit] = split(seconds);
  if (unit === "day") return ngettext("%(count)s day ago", "%(count)s days ago", count);
  if (unit === "h") return gettext("%(count)s h ago", { count });
  return unit === "min" ? gettext("%(count)s min ago", { count }) : gettext("%(count)s s ago", { count });
}

function due(seconds) {
  const [count, unit] = split(Math.abs(seconds));
  return seconds < 0 ? left(count, unit) : overdue(count, unit);
}

function left(count, unit) {
  if (unit === "day") return ngettext("due in %(count)s day", "due in %(count)s days", count);
  if (unit === "h") return gettext("due in %(count)s h", { count });
  return unit === "min" ? gettext("due in %(count)s min", { count }) : gettext("due in %(count)s s", { count });
}

function overdue(count, unit) {
  if (unit === "day") return ngettext("overdue for %(count)s day", "overdue for %(count)s days", count);
  if (unit === "h") return gettext("overdue for %(count)s h", { count });
  return unit === "min" ? gettext("overdue for %(count)s min", { count }) : gettext("overdue for %(count)s s", { count });
}

function refresh() {
  for (const element of document.querySelectorAll("time[data-time='ago'], time[data-time='due']")) {
    const words = element.dataset.time === "due" ? due : ago;
    const text = words((Date.now() - new Date(element.dateTime)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

setInterval(refresh, 10000);
