// Update relative times such as "3 min ago" while a page is open.

import { gettext, ngettext } from "./translations.js";

const UNITS = [
  [86400, "day"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

function splitSeconds(seconds) {
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? UNITS.at(-1);
  return [Math.floor(seconds / size), unit];
}

function formatAgo(seconds) {
  if (seconds < 5) return gettext("just now");
  const [count, unit] = splitSeconds(seconds);
  if (unit === "day") return ngettext("%(count)s day ago", "%(count)s days ago", count);
  if (unit === "h") return gettext("%(count)s h ago", { count });
  return unit === "min" ? gettext("%(count)s min ago", { count }) : gettext("%(count)s s ago", { count });
}

function formatDue(seconds) {
  const [count, unit] = splitSeconds(Math.abs(seconds));
  if (seconds >= 0) return formatOverdue(count, unit);
  const hours = Math.floor((-seconds % 86400) / 3600);
  const minutes = Math.floor((-seconds % 3600) / 60);
  if (unit === "day" && hours && count < 10) return ngettext("due in %(count)s day %(hours)s h", "due in %(count)s days %(hours)s h", count, { count, hours });
  return unit === "h" && minutes ? gettext("due in %(count)s h %(minutes)s min", { count, minutes }) : formatDueIn(count, unit);
}

function formatDueIn(count, unit) {
  if (unit === "day") return ngettext("due in %(count)s day", "due in %(count)s days", count);
  if (unit === "h") return gettext("due in %(count)s h", { count });
  return unit === "min" ? gettext("due in %(count)s min", { count }) : gettext("due in %(count)s s", { count });
}

function formatOverdue(count, unit) {
  if (unit === "day") return ngettext("overdue for %(count)s day", "overdue for %(count)s days", count);
  if (unit === "h") return gettext("overdue for %(count)s h", { count });
  return unit === "min" ? gettext("overdue for %(count)s min", { count }) : gettext("overdue");
}

function updateTimes(selector) {
  for (const element of document.querySelectorAll(selector)) {
    const format = element.dataset.time === "due" ? formatDue : formatAgo;
    const text = format((Date.now() - new Date(element.dateTime)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

setInterval(updateTimes, 10000, "time[data-time='ago']");
setInterval(updateTimes, 1000, "time[data-time='due']"); // the last minute of a deadline is counted second by second
