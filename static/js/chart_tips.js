// The numbers of a bar appear beside it while the pointer is over it or it has the keyboard focus. They are the name of its
// link, so readers of a screen reader have them, too. Each part of it that ends with a semicolon is a line.

const DISTANCE = 8; // pixels
const tip = document.createElement("div");
let shownFor = null;

tip.className = "chart-tip";
tip.setAttribute("aria-hidden", "true");

const findBar = (event) => event.target.closest?.(".plot a[aria-label]");

function show(bar) {
  shownFor = bar;
  const [time, ...rest] = bar.getAttribute("aria-label").split(": ");
  const heading = document.createElement("b");
  heading.textContent = time;
  const lines = rest.join(": ").split("; ").map((line) => Object.assign(document.createElement("span"), { textContent: line }));
  tip.replaceChildren(heading, ...lines);
  document.body.append(tip);
  const step = bar.querySelector(".hit-area").getBoundingClientRect();
  const isBeyond = step.right + DISTANCE + tip.offsetWidth > document.documentElement.clientWidth - DISTANCE;
  tip.style.left = `${isBeyond ? Math.max(DISTANCE, step.left - DISTANCE - tip.offsetWidth) : step.right + DISTANCE}px`;
  tip.style.top = `${step.top}px`;
}

function hide() {
  shownFor = null;
  tip.remove();
}

document.addEventListener("pointerover", (event) => {
  const bar = event.pointerType === "touch" ? null : findBar(event);
  if (bar) show(bar);
  else if (shownFor && shownFor !== document.activeElement) hide();
});
document.addEventListener("focusin", (event) => {
  const bar = findBar(event);
  if (bar?.matches(":focus-visible")) show(bar);
  else hide();
});
document.addEventListener("focusout", hide);
document.addEventListener("keydown", (event) => event.key === "Escape" && hide());

// A page that scrolls takes the bar along; a live update may change its numbers, or remove it.
function update() {
  if (!shownFor) return;
  if (shownFor.isConnected) show(shownFor);
  else hide();
}

document.addEventListener("scroll", update, { capture: true, passive: true });
document.body.addEventListener("htmx:afterSettle", update);
