// Store the time zone of the browser in a cookie, so that the server can format times in it.

const NAME = "harness_zone";
const YEAR = 31536000;

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
const value = encodeURIComponent(zone);
const isCurrent = document.cookie.split("; ").includes(`${NAME}=${value}`);
if (zone && !isCurrent) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${NAME}=${value}; path=/; max-age=${YEAR}; samesite=lax${secure}`;
}
