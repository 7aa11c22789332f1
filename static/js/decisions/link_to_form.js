// A link to the form, or to the answer for several calls, stays at the lower edge of a small window until that begins above it; one to the
// button of a form, until the button is above it.

import { findForm } from "./forms.js";

const sight = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) target.toggleAttribute("data-in-sight", isIntersecting);
  },
  { rootMargin: "0px 0px -76px" },
);

function observeForm() {
  sight.disconnect();
  const form = findForm();
  if (form) sight.observe(form);
  const button = form?.querySelector(".send button[type='submit']");
  if (button) sight.observe(button);
  for (const answer of document.querySelectorAll(".same-answer > fieldset, .for-all")) sight.observe(answer);
}

observeForm();
document.body.addEventListener("htmx:afterSettle", observeForm);
