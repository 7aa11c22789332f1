// While a form is sent, its disabled button says so.

import { gettext } from "../translations.js";

const labels = new Map(); // what the buttons of the forms that are being sent had before, by the button

const findDisabledButton = (form) => form.querySelector(form.getAttribute("hx-disabled-elt").split(", find ")[0].replace(/^find /, ""));

/** Return whether the form of this button is being sent. */
export const isSending = (button) => labels.has(button);

document.body.addEventListener("htmx:beforeSend", ({ detail: { elt } }) => {
  const button = elt.matches("main form[hx-disabled-elt]") ? findDisabledButton(elt) : null;
  if (!button || isSending(button)) return;
  labels.set(button, [...button.childNodes]);
  button.replaceChildren(gettext("Sending …"));
});

document.body.addEventListener("htmx:afterRequest", ({ detail: { elt } }) => {
  const button = elt.matches("form[hx-disabled-elt]") ? findDisabledButton(elt) : null;
  if (!isSending(button)) return;
  button.replaceChildren(...labels.get(button));
  labels.delete(button);
});
