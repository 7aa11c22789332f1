// The fragment of an address never reaches the server. When the server leads from a page to the sign-in, the browser keeps the
// fragment, and the form adds it to the page to which it leads: a link to one message of a transcript leads to that message.

for (const field of document.querySelectorAll("input[data-next-page]")) {
  if (field.value && !field.value.includes("#")) field.value += window.location.hash;
}
