// What a reader has opened stays open when its surroundings are replaced.

const callbacks = window.Idiomorph.defaults.callbacks;

callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
