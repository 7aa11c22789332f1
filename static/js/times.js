// Keeps "3 min ago" true while a page is open, and adds the reader's own time to the exact one.

const UNITS = [
  [86400, "day", "days"],
  [3600, "h", "h"],
  [60, "min", "min"],
  [1, "s", "s"],
];

function ago(seconds) {
  if (seconds < 5) return "just now";
  const [size, one, many] = UNITS.find(([size]) => seconds >= size);
  const amount = Math.floor(seconds / size);
  return `${amount} ${amount === 1 ? one : many} ago`;
}

function due(seconds) {
  const left = Math.abs(seconds);
  const [size, one, many] = UNITS.find(([size]) => left >= size) ?? UNITS.at(-1);
  const amount = Math.floor(left / size);
  return `${seconds < 0 ? "due in" : "overdue for"} ${amount} ${amount === 1 ? one : many}`;
}

function refresh() {
  for (const element of document.querySelectorAll("time[data-time='ago'], time[data-time='due']")) {
    const words = element.dataset.time === "due" ? due : ago;
    const text = words((Date.now() - new Date(element.dateTime)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

document.addEventListener("pointerover", (event) => {
  const element = event.target.closest?.("time[data-time]");
  if (!element || element.title.includes("(")) return;
  const here = new Date(element.dateTime).toLocaleString([], { timeZoneName: "short" });
  element.title = `${element.title} (${here})`;
});
setInterval(refresh, 10000);
