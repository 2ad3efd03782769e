// Photos from the camera of this device: a picture only leaves it when it is taken.

import { button, element } from "./dom.js";

/** Whether this page may use a camera: browsers allow it on this machine, and over HTTPS. */
export const hasCamera = Boolean(navigator.mediaDevices?.getUserMedia);

function taken(video, number) {
  const canvas = document.createElement("canvas");
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  canvas.getContext("2d").drawImage(video, 0, 0);
  return new Promise((resolve) =>
    canvas.toBlob((blob) => resolve(new File([blob], `camera-${number}.png`, { type: "image/png" })), "image/png"),
  );
}

/** Show the camera; every press takes a photo and gives it to `take`, until the dialog is closed. */
export async function openCamera(title, take) {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } }).catch(() => {
    throw new Error("The camera cannot be used: there is none, or the browser does not allow it.");
  });
  const video = element("video", { autoplay: true, muted: true, playsInline: true, "aria-label": "What the camera sees" });
  const count = element("p", { role: "status", class: "quiet" }, "Nothing is sent before you take a photo.");
  let number = 0;
  const shoot = async () => {
    const file = await taken(video, ++number);
    count.textContent = `${number} taken.`;
    take([file]);
  };
  const dialog = element(
    "dialog",
    { class: "camera", "aria-labelledby": "camera-title" },
    element("h2", { id: "camera-title" }, title),
    video,
    count,
    element("div", { class: "row" }, button("Take photo", shoot, { class: "main" }), button("Done", () => dialog.close())),
  );
  dialog.addEventListener("close", () => {
    for (const track of stream.getTracks()) track.stop();
    dialog.remove();
  });
  video.srcObject = stream;
  document.body.append(dialog);
  dialog.showModal();
}
