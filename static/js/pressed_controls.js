// A click is a press and a release on one element. If a response replaces the pressed link or button in between, the browser
// reports no click on it, so the one in its place acts.

const CONTROLS = "a[href], button, summary, input, select";
let press = null; // element under the pointer, its control, and what the control does
let clicked = null; // control of the last click

const findControl = (element) => element?.closest?.(CONTROLS) ?? null;

/** Describe what a control does: equal descriptions belong to the same link or button before and after a swap. */
function describeAction(control) {
  const form = control.form?.getAttribute("action") ?? "";
  const text = control.tagName === "SUMMARY" ? control.textContent.trim() : "";
  const names = ["href", "id", "name", "value", "type", "hx-get", "hx-post"].map((name) => control.getAttribute(name) ?? "");
  return [control.tagName, form, text, ...names].join("\n");
}

window.addEventListener(
  "pointerdown",
  (event) => {
    const control = event.isPrimary && event.button === 0 ? findControl(event.target) : null;
    press = control && { element: event.target, control, action: describeAction(control) };
  },
  true,
);

window.addEventListener("click", (event) => (clicked = findControl(event.target)), true);
window.addEventListener("pointercancel", () => (press = null), true);

window.addEventListener(
  "pointerup",
  ({ clientX, clientY, ctrlKey, metaKey, shiftKey, altKey }) => {
    const before = press;
    press = clicked = null;
    if (!before || before.element.isConnected) return;
    const control = findControl(document.elementFromPoint(clientX, clientY));
    if (!control || describeAction(control) !== before.action) return;
    setTimeout(() => {
      if (clicked === control || !control.isConnected) return; // the browser has reported the click itself
      control.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window, ctrlKey, metaKey, shiftKey, altKey }));
    });
  },
  true,
);
