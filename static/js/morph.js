// What a reader has opened, chosen or typed stays as it is when its surroundings are replaced.

const KEPT = { DETAILS: ["open"], INPUT: ["checked", "value"], OPTION: ["selected"], TEXTAREA: ["value"] };

window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
  node.type === "hidden" || !KEPT[node.tagName]?.includes(name);
