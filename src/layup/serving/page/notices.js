// What the page says about what was done: results politely, what went wrong at once. Both are spoken.

import { button, element } from "./dom.js";

const STAYS = 8000; // milliseconds that a result is shown

export class Notices {
  #results;
  #alerts;

  constructor(results, alerts) {
    this.#results = results;
    this.#alerts = alerts;
  }

  /** Say what was done; it goes after a while. */
  tell(text) {
    this.#results.replaceChildren();
    const notice = this.#show(this.#results, text);
    setTimeout(() => notice.remove(), STAYS);
  }

  /** Say what went wrong; it stays until it is closed, or something else goes wrong. */
  warn(text) {
    this.#alerts.replaceChildren();
    this.#show(this.#alerts, text);
  }

  /** Say something, with what can be done about it. */
  offer(text, action, act) {
    const notice = this.#show(this.#alerts, text);
    notice.querySelector("button").before(
      button(action, () => {
        notice.remove();
        act();
      }, { class: "main" }),
    );
  }

  /** Do something; what goes wrong with it is shown, and then the result is undefined. */
  async trying(action) {
    try {
      return await action();
    } catch (error) {
      this.warn(error.message);
      return undefined;
    }
  }

  #show(place, text) {
    const close = button("×", () => notice.remove(), { "aria-label": "Close this message", class: "close" });
    const notice = element("div", { class: "notice line" }, element("p", {}, text), close);
    place.append(notice);
    return notice;
  }
}
