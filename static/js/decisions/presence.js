// The page of a call tells when its reader leaves it, so that colleagues do not wait for somebody who is gone.

addEventListener("pagehide", () => {
  const people = document.querySelector("#people[hx-trigger*='every']");
  if (!people) return;
  const left = new FormData();
  left.set("csrfmiddlewaretoken", document.getElementById("waiting")?.dataset.token ?? people.querySelector("input[name='csrfmiddlewaretoken']").value);
  left.set("left", "1");
  navigator.sendBeacon(people.getAttribute("hx-post"), left);
});
