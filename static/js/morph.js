// Opened details, choices and typed text are preserved when a live update replaces the elements around them.

const PRESERVED_ATTRIBUTES = { DETAILS: ["open"], INPUT: ["checked", "value"], OPTION: ["selected"], TEXTAREA: ["value"] };

// Content that a reader has expanded is not folded again, unless its status has changed.
const EXPANDED = "[data-whole]";
const STATUS_ELEMENTS = ".chip, .res, .decision-line";
const statusTexts = (element) => [...element.querySelectorAll(STATUS_ELEMENTS)].map((each) => (each.matches(".chip") ? each.textContent : ""));

function isExpanded(element, fresh) {
  return element.matches?.(EXPANDED) && !fresh.matches(EXPANDED) && String(statusTexts(element)) === String(statusTexts(fresh));
}

/** Uncheck radio buttons of a new element where the reader has already chosen one of the group. */
function keepRadioChoice(node) {
  for (const radio of node.querySelectorAll?.("input[type='radio'][checked]") ?? []) {
    if (document.querySelector(`input[type='radio'][name="${CSS.escape(radio.name)}"]:checked`)) radio.removeAttribute("checked");
  }
}

window.Idiomorph.defaults.callbacks.beforeNodeAdded = keepRadioChoice;
window.Idiomorph.defaults.callbacks.beforeNodeMorphed = (element, fresh) => !isExpanded(element, fresh);
// A button stays disabled while its form is sent, and a remark about a typed text stays until a key hides it.
const DISABLED_WHILE_SENDING = ["disabled", "data-disabled-by-htmx"];

window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
  !(DISABLED_WHILE_SENDING.includes(name) && node.hasAttribute("data-disabled-by-htmx")) &&
  !(name === "hidden" && node.hasAttribute("data-ignored-text")) &&
  (node.type === "hidden" || !PRESERVED_ATTRIBUTES[node.tagName]?.includes(name));

// A live update or a submitted form may remove an element before its request is answered. The element then cannot inherit
// how the response is swapped in, so the attribute is set on the element itself when the response arrives. If the target
// is replaced too, the response goes to the element that has its id now. The response of a part that refreshes itself is
// dropped instead, as it names an earlier revision than the new part, and the new part is fetched again. From a removed
// element, the parts of the page that a response replaces beside its target cannot be found: the live update that removed
// the element has brought them. Events of removed elements do not reach the body, so the target itself listens.
const redirectedTargets = new WeakSet();

function redirectSwap(target) {
  if (!target || redirectedTargets.has(target)) return;
  redirectedTargets.add(target);
  target.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { elt: requester } = detail.requestConfig;
    if (!requester.isConnected) {
      requester.setAttribute("hx-ext", "morph");
      requester.removeAttribute("hx-select-oob");
    }
    if (target.isConnected || detail.target !== target) return;
    if (requester !== target) detail.target = document.getElementById(target.id) ?? target;
    else {
      detail.shouldSwap = false;
      document.body.dispatchEvent(new CustomEvent("harness:responseDropped"));
    }
  });
}

document.body.addEventListener("htmx:beforeRequest", ({ detail }) => redirectSwap(detail.target));
