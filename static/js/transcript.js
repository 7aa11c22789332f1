// Earlier messages come when the reader scrolls up to them, and what is being read stays where it is.

let last = window.scrollY;
let kept = null; // an element that is being read, and where it stands
let focused = false;

const link = () => document.querySelector("a[data-earlier]");

function reached(element) {
  const box = element.getBoundingClientRect();
  return box.bottom > 0 && box.top < window.innerHeight;
}

document.addEventListener(
  "scroll",
  () => {
    const up = window.scrollY < last;
    last = window.scrollY;
    const earlier = link();
    if (up && earlier && reached(earlier)) window.htmx.trigger(earlier, "earlier");
  },
  { passive: true },
);

document.body.addEventListener("htmx:beforeSwap", (event) => {
  const earlier = event.detail.requestConfig?.elt;
  if (!earlier?.matches?.("a[data-earlier]")) return;
  const first = earlier.closest(".window").querySelector(".msg");
  kept = first && { element: first, top: first.getBoundingClientRect().top };
  focused = document.activeElement === earlier;
});

document.body.addEventListener("htmx:afterSettle", () => {
  if (!kept) return;
  const moved = kept.element.getBoundingClientRect().top - kept.top;
  kept = null;
  if (moved) window.scrollBy({ top: moved, behavior: "instant" });
  last = window.scrollY;
  if (focused) link()?.focus({ preventScroll: true });
});
