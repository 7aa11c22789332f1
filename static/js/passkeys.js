// Forms with `data-passkey` ask the browser for a passkey before they are sent: `create` makes one, `get` signs with one.

import { gettext } from "./words.js";

const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
const known = (list) => list?.map((each) => ({ ...each, id: bytes(each.id) }));

async function create(options) {
  const residence = options.wanted ? "required" : "discouraged";
  const made = await navigator.credentials.create({
    publicKey: {
      ...options.publicKey,
      challenge: bytes(options.publicKey.challenge),
      user: { ...options.publicKey.user, id: bytes(options.publicKey.user.id) },
      excludeCredentials: known(options.publicKey.excludeCredentials),
      authenticatorSelection: {
        ...options.publicKey.authenticatorSelection,
        residentKey: residence,
        requireResidentKey: options.wanted,
        ...(options.wanted ? { userVerification: "required" } : {}),
      },
    },
  });
  return {
    ...about(made),
    response: {
      attestationObject: text(made.response.attestationObject),
      clientDataJSON: text(made.response.clientDataJSON),
      transports: made.response.getTransports?.() ?? [],
    },
  };
}

async function get(options) {
  const made = await navigator.credentials.get({
    publicKey: {
      ...options.publicKey,
      challenge: bytes(options.publicKey.challenge),
      allowCredentials: known(options.publicKey.allowCredentials),
    },
  });
  return {
    ...about(made),
    response: {
      authenticatorData: text(made.response.authenticatorData),
      clientDataJSON: text(made.response.clientDataJSON),
      signature: text(made.response.signature),
      userHandle: made.response.userHandle ? text(made.response.userHandle) : null,
    },
  };
}

const about = (made) => ({
  type: made.type,
  id: made.id,
  rawId: text(made.rawId),
  authenticatorAttachment: made.authenticatorAttachment,
  clientExtensionResults: made.getClientExtensionResults(),
});

async function optionsOf(form) {
  if (form.dataset.options) return JSON.parse(form.dataset.options);
  const answer = await fetch(form.action, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(gettext("The server answered with status %(status)s.", { status: answer.status }));
  return (await answer.json()).request_options;
}

function said(error) {
  if (error.name === "NotAllowedError") return gettext("The passkey was not used: you cancelled, or it took too long.");
  if (error.name === "InvalidStateError") return gettext("This passkey is already registered.");
  if (error.name === "SecurityError") return gettext("Passkeys work only at the site's own address, over HTTPS.");
  return gettext("The passkey could not be used. %(problem)s", { problem: error.message });
}

async function sign(form) {
  const problem = form.querySelector("[data-problem]");
  problem.hidden = true;
  try {
    const options = await optionsOf(form);
    options.wanted = form.elements.passwordless?.checked ?? false;
    const credential = await (form.dataset.passkey === "create" ? create(options) : get(options));
    form.elements.credential.value = JSON.stringify(credential);
    form.submit();
  } catch (error) {
    problem.textContent = said(error);
    problem.hidden = false;
  }
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !window.PublicKeyCredential;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sign(form);
  });
}
