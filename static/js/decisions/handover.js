// A call that was handed over: the focus goes to what the reader can do next, as after a decision.

import { focusWhatFollows } from "./focus.js";

document.body.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (detail.requestConfig?.elt.matches("[data-hand-over]") && document.activeElement === document.body) focusWhatFollows();
});
