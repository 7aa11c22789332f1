// Forms with `data-passkey` get a passkey from the browser before they are sent: `create` registers one, `get` signs in.

import { gettext } from "./translations.js";

const decodeBase64 = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const encodeBase64 = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
const decodeIds = (list) => list?.map((each) => ({ ...each, id: decodeBase64(each.id) }));

async function createCredential(options) {
  const residence = options.passwordless ? "required" : "discouraged";
  const credential = await navigator.credentials.create({
    publicKey: {
      ...options.publicKey,
      challenge: decodeBase64(options.publicKey.challenge),
      user: { ...options.publicKey.user, id: decodeBase64(options.publicKey.user.id) },
      excludeCredentials: decodeIds(options.publicKey.excludeCredentials),
      authenticatorSelection: {
        ...options.publicKey.authenticatorSelection,
        residentKey: residence,
        requireResidentKey: options.passwordless,
        ...(options.passwordless ? { userVerification: "required" } : {}),
      },
    },
  });
  return {
    ...credentialFields(credential),
    response: {
      attestationObject: encodeBase64(credential.response.attestationObject),
      clientDataJSON: encodeBase64(credential.response.clientDataJSON),
      transports: credential.response.getTransports?.() ?? [],
    },
  };
}

async function getCredential(options) {
  const credential = await navigator.credentials.get({
    publicKey: {
      ...options.publicKey,
      challenge: decodeBase64(options.publicKey.challenge),
      allowCredentials: decodeIds(options.publicKey.allowCredentials),
    },
  });
  return {
    ...credentialFields(credential),
    response: {
      authenticatorData: encodeBase64(credential.response.authenticatorData),
      clientDataJSON: encodeBase64(credential.response.clientDataJSON),
      signature: encodeBase64(credential.response.signature),
      userHandle: credential.response.userHandle ? encodeBase64(credential.response.userHandle) : null,
    },
  };
}

const credentialFields = (credential) => ({
  type: credential.type,
  id: credential.id,
  rawId: encodeBase64(credential.rawId),
  authenticatorAttachment: credential.authenticatorAttachment,
  clientExtensionResults: credential.getClientExtensionResults(),
});

async function loadOptions(form) {
  if (form.dataset.options) return JSON.parse(form.dataset.options);
  const answer = await fetch(form.action, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(gettext("The server answered with status %(status)s.", { status: answer.status }));
  return (await answer.json()).request_options;
}

function errorMessage(error) {
  if (error.name === "NotAllowedError") return gettext("The passkey was not used: you cancelled, or it took too long.");
  if (error.name === "InvalidStateError") return gettext("This passkey is already registered.");
  if (error.name === "SecurityError") return gettext("Passkeys work only at the site's own address, over HTTPS.");
  return gettext("The passkey could not be used. %(problem)s", { problem: error.message });
}

async function submitWithPasskey(form) {
  const problem = form.querySelector("[data-problem]");
  problem.hidden = true;
  try {
    const options = await loadOptions(form);
    options.passwordless = form.elements.passwordless?.checked ?? false;
    const credential = await (form.dataset.passkey === "create" ? createCredential(options) : getCredential(options));
    form.elements.credential.value = JSON.stringify(credential);
    form.submit();
  } catch (error) {
    problem.textContent = errorMessage(error);
    problem.hidden = false;
  }
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !window.PublicKeyCredential;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submitWithPasskey(form);
  });
}
