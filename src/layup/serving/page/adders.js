// The buttons by which photos come in: files, and the camera.

import { hasCamera, openCamera } from "./camera.js";
import { button, element } from "./dom.js";
import { chooser } from "./files.js";

/** Buttons that give photos to `take`; `what` says which photos, to those who cannot see where the buttons are. */
export function adders(text, what, take, notices) {
  const camera = () => notices.trying(() => openCamera(`Camera: ${what}`, take));
  return element(
    "div",
    { class: "row" },
    chooser(text, `${text}: ${what}`, take),
    hasCamera ? button("Camera", camera, { "aria-label": `Camera: ${what}` }) : null,
  );
}
