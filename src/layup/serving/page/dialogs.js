// Questions before something that cannot be taken back, and a field for a name.

import { button, element } from "./dom.js";

/** Show a dialog with a form; the promise is what `value` gives if it is sent, null if it is cancelled. */
function asked(title, content, action, value, properties = {}) {
  return new Promise((resolve) => {
    let answer = null;
    const send = (event) => {
      event.preventDefault();
      answer = value();
      dialog.close();
    };
    const dialog = element(
      "dialog",
      { "aria-labelledby": "dialog-title" },
      element(
        "form",
        { onsubmit: send },
        element("h2", { id: "dialog-title" }, title),
        ...content,
        element(
          "div",
          { class: "row" },
          element("button", { class: "main", ...properties }, action),
          button("Cancel", () => dialog.close()),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Whether the person wants it. */
export function confirmed(title, text, action) {
  return asked(title, [element("p", {}, text)], action, () => true, { class: "main grave" });
}

/** A name that the person types; null if they cancel. */
export function named(title, text, label, value, action) {
  const field = element("input", { id: "dialog-name", value, required: true, maxLength: 200, autocomplete: "off" });
  const content = [text && element("p", {}, text), element("label", { for: "dialog-name" }, label), field];
  return asked(title, content, action, () => field.value.trim() || null);
}
