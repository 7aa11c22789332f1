// What keeps a form from being recorded is said beside its button.

/** Scroll to what is said about a form that was sent with a key while its button is outside of the window. */
export function scrollToConnectionProblem(form) {
  form?.querySelector("[data-connection]:not([hidden])")?.scrollIntoView({ block: "nearest", behavior: "instant" });
}
