// A call that was handed over: the focus goes to what the reader can do next, as after a decision, or to the field that was
// refused.

import { focusWhatFollows } from "./focus.js";

document.body.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (!detail.requestConfig?.elt.matches("[data-hand-over]")) return;
  const refused = document.querySelector("[data-hand-over] [aria-invalid]");
  if (refused) refused.focus();
  else if (document.activeElement === document.body) focusWhatFollows();
});
