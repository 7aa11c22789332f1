// The button that records changes and approves the call stays in its place, disabled, while the changes have errors or warnings.

import { announce } from "../announce.js";

const BUTTON = "button[name='then'][value='approve']";

export const isApprovalBlocked = (button) => button.getAttribute("aria-disabled") === "true";

/** Disable the button while the changes have errors or warnings, with what comes first as its description. */
export function markApprovalOfChanges(form) {
  const button = form.querySelector(BUTTON);
  if (!button) return;
  const obstacle = [...form.querySelectorAll(".approval-obstacle")].find((each) => window.getComputedStyle(each).display !== "none");
  if (obstacle) button.setAttribute("aria-disabled", "true");
  else button.removeAttribute("aria-disabled");
  button.setAttribute("aria-describedby", (obstacle ?? form.querySelector("#effect-of-approval")).id);
}

/** Say that changes with warnings are recorded before the call is approved; lead to the value that has to be corrected. */
export function sayWhatComesBeforeApproval(form) {
  const note = form.querySelector("[data-approve-later]");
  if (form.querySelector("#warned-arguments > *")) {
    note.hidden = false;
    announce(note.textContent.trim());
    return;
  }
  announce(document.getElementById("approval-after-errors").textContent);
  [...form.querySelectorAll(".arguments [aria-invalid]")].find((each) => each.checkVisibility())?.focus();
}

document.addEventListener(
  "click",
  (event) => {
    const button = event.target.closest?.(BUTTON);
    if (!button || !isApprovalBlocked(button)) return;
    event.preventDefault();
    sayWhatComesBeforeApproval(button.form);
  },
  true,
);
