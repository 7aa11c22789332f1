// The decision column stays visible while the evidence beside it scrolls. If it is higher than the window, its end with the
// button stays visible.

const GAP = 8;

function updateTop() {
  const column = document.querySelector(".sticky-column");
  if (!column) return;
  const top = Math.min(GAP, window.innerHeight - column.offsetHeight - GAP);
  column.style.setProperty("--stick-top", `${top}px`);
}

const sizes = new ResizeObserver(updateTop);

function observeColumn() {
  const column = document.querySelector(".sticky-column");
  sizes.disconnect();
  if (column) sizes.observe(column);
}

document.body.addEventListener("htmx:afterSettle", observeColumn);
window.addEventListener("resize", updateTop);
observeColumn();
