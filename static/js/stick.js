// The decision stays in sight while the evidence beside it scrolls. Where it is longer than the window, its end with the
// button stays, instead of its beginning.

const GAP = 8;

function place() {
  const column = document.querySelector(".sticky-column");
  if (!column) return;
  const top = Math.min(GAP, window.innerHeight - column.offsetHeight - GAP);
  column.style.setProperty("--stick-top", `${top}px`);
}

const sizes = new ResizeObserver(place);

function watch() {
  const column = document.querySelector(".sticky-column");
  sizes.disconnect();
  if (column) sizes.observe(column);
}

document.body.addEventListener("htmx:afterSettle", watch);
window.addEventListener("resize", place);
watch();
