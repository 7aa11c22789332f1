// The page that prints a whole session: a button that opens the print dialog, once styles and images are there.

const button = document.querySelector("[data-print]");

button.addEventListener("click", () => {
  if (document.readyState === "complete") window.print();
  else window.addEventListener("load", () => window.print(), { once: true });
});
button.hidden = false;
document.querySelector("[data-print-by-browser]").hidden = true;
