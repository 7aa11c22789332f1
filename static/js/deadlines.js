// Deadlines become more prominent while the page is open; when one has passed, the decision page closes its form.

const LEVELS = [
  [0, "overdue"],
  [15 * 60, "urgent"],
  [60 * 60, "soon"],
  [24 * 60 * 60, "today"],
];
const NAMES = [...LEVELS.map(([, name]) => name), "later"];
const LONGEST = 2 ** 31 - 1; // milliseconds that a timer can wait

const RETRY_DELAY = 5000;

let timer;
let requestedDeadline; // the passed deadline for which the card was already reloaded

function updateLevels() {
  for (const chip of document.querySelectorAll(".deadline")) {
    const left = (new Date(chip.querySelector("time")?.dateTime) - Date.now()) / 1000;
    const name = LEVELS.find(([longest]) => left <= longest)?.[1] ?? "later";
    if (!chip.classList.contains(name)) {
      chip.classList.remove(...NAMES);
      chip.classList.add(name);
    }
  }
}

function closeExpiredForm() {
  const status = document.querySelector("#decision-state[data-deadline]");
  clearTimeout(timer);
  if (!status || status.dataset.state === "expired") return;
  const left = new Date(status.dataset.deadline) - Date.now();
  if (left > 0) {
    timer = setTimeout(closeExpiredForm, Math.min(left + 50, LONGEST));
    return;
  }
  if (requestedDeadline === status.dataset.deadline) {
    timer = setTimeout(triggerReload, RETRY_DELAY, status.dataset.event); // the server's clock is behind this one
    return;
  }
  requestedDeadline = status.dataset.deadline;
  status.dataset.state = "expired";
  triggerReload(status.dataset.event);
}

function triggerReload(event) {
  window.htmx.trigger(document.body, event);
}
function updateDeadlines() {
  updateLevels();
  closeExpiredForm();
}

setInterval(updateLevels, 1000);
document.body.addEventListener("htmx:afterSettle", updateDeadlines);
document.addEventListener("visibilitychange", updateDeadlines);
updateDeadlines();
