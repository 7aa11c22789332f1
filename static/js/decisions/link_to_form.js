// A link to the form stays at the lower edge of a small window until the form begins above that link.

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
}

observeForm();
document.body.addEventListener("htmx:afterSettle", observeForm);
