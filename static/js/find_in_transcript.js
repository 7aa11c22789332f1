// Each match of a search in a transcript is a page of its own. After Enter in the find field, and when a match was reached
// by its focused link, the link to the next match in that direction has the focus: Enter goes on, and Shift+Enter goes back.

const KEY = "harness-find-direction";
const field = document.getElementById("find");
const status = document.querySelector(".search-status:has(a[rel])");
const linkTo = (direction) => status?.querySelector(`a[rel=${direction}]`);

/** Go to the next or the previous match, and go on in this direction with Enter. */
function goTo(direction) {
  const link = linkTo(direction);
  if (!link) return;
  sessionStorage.setItem(KEY, direction);
  window.location.assign(link.href);
}

function restoreFocus() {
  const direction = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (!direction || !status) return;
  const target = linkTo(direction) ?? status;
  if (target === status) status.tabIndex = -1;
  target.focus({ preventScroll: true });
}

field?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  if (status && field.value === field.defaultValue) {
    event.preventDefault();
    goTo(event.shiftKey ? "prev" : "next");
  } else sessionStorage.setItem(KEY, "next");
});

status?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
  const direction = event.target.rel;
  if (event.target !== status && !direction) return;
  event.preventDefault();
  if (event.shiftKey) goTo("prev");
  else if (direction) goTo(direction);
});

// The browser removes the focus when it goes to the message of the address, which it does when it draws the page.
window.addEventListener("pageshow", () => requestAnimationFrame(() => requestAnimationFrame(restoreFocus)));
