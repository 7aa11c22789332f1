// Handing a call over to a colleague: the link to the choice, and the button that names the receiver.

import { gettext } from "../translations.js";

// A link to the choice of a colleague opens the form around it, and chooses the only one there is.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-hand-over]");
  if (!link) return;
  event.preventDefault();
  const colleagues = document.querySelector(link.hash);
  colleagues.closest("details").open = true;
  if (!colleagues.value) colleagues.selectedIndex = 1; // the first after "nobody"
  labelHandover();
  colleagues.focus();
});

/** Say on the button of the comment form to whom it hands the call over, if to anybody. */
function labelHandover() {
  const button = document.querySelector("button[data-comment-label]");
  if (!button) return;
  const name = button.form.elements.to.value;
  button.textContent = name ? gettext("Hand over to %(name)s", { name }) : button.dataset.commentLabel;
}

document.addEventListener("change", ({ target }) => {
  if (target.matches?.("#comments select")) labelHandover();
});
document.body.addEventListener("htmx:afterSwap", labelHandover);

/** Focus the way on from a call that was handed over; if that was undone, what opens the form again. */
function focusWhatFollowsHandover() {
  document.querySelector("#comments :is(.handover a, details summary)")?.focus({ preventScroll: true });
}

labelHandover();
document.body.addEventListener("htmx:afterSettle", ({ target }) => {
  if (target.id === "comments" && document.activeElement === document.body) focusWhatFollowsHandover();
});
