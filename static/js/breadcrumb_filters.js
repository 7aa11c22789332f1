// The breadcrumb of a decision page leads to the review queue as the reader left it: with its tab, filters and page, and with
// the focus on the row of the call, or on the one in its place. The next call is one of that list, so requests name its filters.

const KEY = "harness.list";
const list = document.getElementById("queue");

if (list) sessionStorage.setItem(KEY, `${window.location.pathname}${window.location.search}`);

function restoreFilters() {
  const kept = sessionStorage.getItem(KEY);
  const link = document.querySelector("a[data-up-to-list]");
  if (link && kept?.split("?")[0] === link.pathname) link.href = kept;
}

restoreFilters();
document.body.addEventListener("htmx:configRequest", ({ detail }) => {
  const [, query] = (sessionStorage.getItem(KEY) ?? "").split("?");
  if (query) detail.headers["Harness-List"] = query;
});
document.body.addEventListener("htmx:afterSwap", restoreFilters);

const ROWS_KEY = "harness.list-rows"; // addresses of the rows of the list when the reader left it
const OPEN_KEY = "harness.open-row"; // addresses of the page whose breadcrumb the reader follows

const getRowLinks = () => [...list.querySelectorAll("a[data-row]")];
const getAddress = ({ pathname, search }) => pathname + search;

/** Take a value out of the storage of this tab. */
function takeKept(key) {
  const kept = JSON.parse(sessionStorage.getItem(key) ?? "[]");
  sessionStorage.removeItem(key);
  return kept;
}

/** Focus the row of the page that the reader comes from; if it is gone, the next one that is left, or the last one. */
function focusRowOfLeftPage() {
  const [addresses, before] = [takeKept(OPEN_KEY), takeKept(ROWS_KEY)];
  if (!addresses.length || document.activeElement !== document.body) return;
  const links = getRowLinks();
  const findLink = (address) => links.find((link) => getAddress(link) === address);
  const at = before.findIndex((address) => addresses.includes(address));
  const following = at < 0 ? addresses : before.slice(at);
  const row = following.map(findLink).find(Boolean) ?? (at < 0 ? undefined : links.at(-1));
  row?.focus();
}

if (list) {
  focusRowOfLeftPage();
  addEventListener("pagehide", () => sessionStorage.setItem(ROWS_KEY, JSON.stringify(getRowLinks().map(getAddress))));
}

document.addEventListener("click", ({ target }) => {
  if (!target.closest?.("a[data-up-to-list]")) return;
  sessionStorage.setItem(OPEN_KEY, JSON.stringify([getAddress(window.location), window.location.pathname]));
});
