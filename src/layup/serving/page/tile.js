// A photo as a small square.

import { element } from "./dom.js";

/** The picture of a photo, or its name where the browser cannot show it. */
export function picture(photo, alt = photo.name) {
  if (photo.thumb) return element("img", { src: photo.thumb, alt, decoding: "async" });
  return element("span", { class: "nameless", role: "img", "aria-label": alt }, photo.name);
}

/** A photo that can be selected; updated with {photo, selected}. */
export function selectable({ photo }, toggle) {
  const box = element("input", { type: "checkbox", onchange: () => toggle(photo.id) });
  const node = element("li", {}, element("label", { class: "tile" }, box, picture(photo, `Select ${photo.name}`)));
  node.update = ({ selected }) => (box.checked = selected);
  return node;
}

/** A photo that can be opened; updated with {photo, mark, current}: the mark is said below it. */
export function opened({ photo }, open) {
  const mark = element("span", { class: "mark" });
  const image = element("span", { class: "frame" });
  const control = element("button", { type: "button", class: "tile", onclick: open }, image, mark);
  const node = element("li", {}, control);
  let drawn; // the address of the picture
  node.update = (now) => {
    if (now.photo.thumb !== drawn) image.replaceChildren(picture(now.photo, ""));
    drawn = now.photo.thumb;
    mark.textContent = now.mark;
    control.setAttribute("aria-label", `${photo.name}: ${now.mark}`);
    control.setAttribute("aria-pressed", String(now.current));
  };
  return node;
}
