// A deadline gets louder while the page is open, and when it has passed the decision page closes its form at once.

const LEVELS = [
  [0, "overdue"],
  [15 * 60, "urgent"],
  [60 * 60, "soon"],
  [24 * 60 * 60, "today"],
];
const NAMES = [...LEVELS.map(([, name]) => name), "later"];
const LONGEST = 2 ** 31 - 1; // milliseconds that a timer can wait

const PAUSE = 5000;

let timer;
let asked; // the deadline that the server was asked about when it had passed here

function refresh() {
  for (const chip of document.querySelectorAll(".deadline")) {
    const left = (new Date(chip.querySelector("time")?.dateTime) - Date.now()) / 1000;
    const name = LEVELS.find(([longest]) => left <= longest)?.[1] ?? "later";
    if (!chip.classList.contains(name)) {
      chip.classList.remove(...NAMES);
      chip.classList.add(name);
    }
  }
}

function close() {
  const standing = document.querySelector("#decision-state[data-deadline]");
  clearTimeout(timer);
  if (!standing || standing.dataset.state === "expired") return;
  const left = new Date(standing.dataset.deadline) - Date.now();
  if (left > 0) {
    timer = setTimeout(close, Math.min(left + 50, LONGEST));
    return;
  }
  if (asked === standing.dataset.deadline) {
    timer = setTimeout(ask, PAUSE, standing.dataset.event); // the server's clock is behind this one
    return;
  }
  asked = standing.dataset.deadline;
  standing.dataset.state = "expired";
  ask(standing.dataset.event);
}

function ask(event) {
  window.htmx.trigger(document.body, event);
}
function update() {
  refresh();
  close();
}

setInterval(refresh, 10000);
document.body.addEventListener("htmx:afterSettle", update);
document.addEventListener("visibilitychange", update);
update();
