// Elements, made without markup: text is only ever text, whatever photos and classes are called.

/**
 * A new element. Properties that begin with "on" are listeners; `class`, `for`, `aria-…` and `data-…` are
 * attributes, the rest properties of the element. Null and undefined are left out, also among the children.
 * @param {string} tag
 * @param {Object<string, any>} [properties]
 * @param {...(Node|string|number|null|undefined)} children
 * @returns {any}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && !name.startsWith("aria")) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The number of a step, for those who see it: what is to be done is said beside it. */
export function step(number) {
  return element("span", { class: "step", "aria-hidden": "true" }, number);
}

/** A button that submits nothing. */
export function button(text, onclick, properties = {}) {
  return element("button", { type: "button", onclick, ...properties }, text);
}

/** Do something that takes a while: the button says so, and does nothing when it is pressed again meanwhile. */
export async function whileBusy(control, text, action) {
  if (control.ariaDisabled === "true") return;
  const before = control.textContent;
  control.ariaDisabled = "true"; // a button that is disabled would lose the focus
  control.textContent = text;
  try {
    await action();
  } finally {
    control.textContent = before;
    control.ariaDisabled = "false";
  }
}

/** Set the text of an element, only if it changes: screen readers speak what was set. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Make the children of a parent those of the items, in their order; those that stay keep their state and focus.
 * @template T
 * @param {HTMLElement} parent
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => HTMLElement & {update?: (item: T) => void}} make
 */
export function keyed(parent, items, keyOf, make) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = before.get(key);
    before.delete(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    child.update?.(item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of before.values()) child.remove();
}
