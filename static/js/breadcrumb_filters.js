// The breadcrumb of a decision page leads to the review queue as the reader left it: with its tab, filters and page.

const KEY = "harness.list";
const list = document.getElementById("queue");

if (list) sessionStorage.setItem(KEY, `${window.location.pathname}${window.location.search}`);

function restoreFilters() {
  const kept = sessionStorage.getItem(KEY);
  const link = document.querySelector("a[data-up-to-list]");
  if (link && kept?.split("?")[0] === link.pathname) link.href = kept;
}

restoreFilters();
document.body.addEventListener("htmx:afterSwap", restoreFilters);
