// What a reader has opened, chosen or typed stays as it is when its surroundings are replaced.

const KEPT = { DETAILS: ["open"], INPUT: ["checked", "value"], OPTION: ["selected"], TEXTAREA: ["value"] };

// What was too long and has been shown at once by a reader is not folded again, unless something has become of it since.
const WHOLE = "[data-whole]";
const FACTS = ".chip, .res, .decision-line";
const facts = (element) => [...element.querySelectorAll(FACTS)].map((each) => (each.matches(".chip") ? each.textContent : ""));

function unfolded(element, fresh) {
  if (element.tagName === "TD") {
    const same = element.dataset.of === fresh.dataset.of;
    return same && element.querySelector(":scope > .args") && fresh.querySelector("a.whole");
  }
  return element.matches?.(WHOLE) && !fresh.matches(WHOLE) && String(facts(element)) === String(facts(fresh));
}

// A radio button that comes checked with a new row would take the reader's choice from its group.
function yielding(node) {
  for (const radio of node.querySelectorAll?.("input[type='radio'][checked]") ?? []) {
    if (document.querySelector(`input[type='radio'][name="${CSS.escape(radio.name)}"]:checked`)) radio.removeAttribute("checked");
  }
}

window.Idiomorph.defaults.callbacks.beforeNodeAdded = yielding;
window.Idiomorph.defaults.callbacks.beforeNodeMorphed = (element, fresh) => !unfolded(element, fresh);
window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
  node.type === "hidden" || !KEPT[node.tagName]?.includes(name);

// A live update may take an element away before its request is answered. Its surroundings no longer say then how the
// answer is swapped in, so the element says it itself from when it asks.
// Where the update has replaced the target too, the answer goes to what stands there now.
const followed = new WeakSet();

function follow(target) {
  if (!target?.id || followed.has(target)) return;
  followed.add(target);
  target.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (!target.isConnected && detail.target === target) detail.target = document.getElementById(target.id) ?? target;
  });
}

document.body.addEventListener("htmx:beforeRequest", ({ detail }) => {
  if (!detail.elt.hasAttribute("hx-ext")) detail.elt.setAttribute("hx-ext", "morph");
  follow(detail.target);
});
