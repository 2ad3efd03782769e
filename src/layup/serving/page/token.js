// The token of a server that wants one: from the address (`#token=…`) or a field, for as long as the tab is open.

import { element } from "./dom.js";

const NAME = "layup-token";

/** Take the token out of the address, so that it is not seen, bookmarked or shared. */
function fromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(NAME, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export class Tokens {
  #asking = null;

  constructor() {
    fromAddress();
  }

  get token() {
    return sessionStorage.getItem(NAME);
  }

  /** Ask the person, once for all requests that wait; `refused` is the token that the server did not want. */
  ask(refused) {
    if (this.token !== refused) return Promise.resolve(); // another request has asked meanwhile
    this.#asking ??= this.#dialog(refused).finally(() => (this.#asking = null));
    return this.#asking;
  }

  #dialog(refused) {
    return new Promise((resolve) => {
      const field = element("input", { type: "password", id: "token", required: true, autocomplete: "off" });
      const why = refused ? "The server does not know this token." : "This server asks for a token.";
      const dialog = element(
        "dialog",
        { "aria-labelledby": "token-title", oncancel: (event) => event.preventDefault() },
        element(
          "form",
          { method: "dialog", onsubmit: () => sessionStorage.setItem(NAME, field.value.trim()) },
          element("h2", { id: "token-title" }, "Token"),
          element("p", {}, `${why} Whoever started it knows it. This tab forgets it when it is closed.`),
          element("label", { for: "token" }, "Token"),
          field,
          element("div", { class: "row" }, element("button", { class: "main" }, "Continue")),
        ),
      );
      dialog.addEventListener("close", () => {
        dialog.remove();
        resolve();
      });
      document.body.append(dialog);
      dialog.showModal();
    });
  }
}
