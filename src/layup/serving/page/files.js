// Photos that people give: chosen, pasted, or dropped, also as folders.

import { element } from "./dom.js";

const LEFT_BEHIND = /^(\.|Thumbs\.db$|desktop\.ini$)/i; // what systems leave in folders

async function inEntry(entry) {
  if (LEFT_BEHIND.test(entry.name)) return [];
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    for (const each of some) found.push(...(await inEntry(each)));
  }
}

/** The files of a drop, with those in folders; `folder` is the name of a folder that was dropped alone. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return { files: [...transfer.files], folder: null };
  const folder = entries.length === 1 && entries[0].isDirectory ? entries[0].name : null;
  return { files: (await Promise.all(entries.map(inEntry))).flat(), folder };
}

/** Let an element take photos that are dropped on it. */
export function takesDrops(node, take) {
  let depth = 0; // of elements inside that were entered and not left
  const show = (change) => {
    depth = Math.max(0, depth + change);
    node.classList.toggle("over", depth > 0);
  };
  node.addEventListener("dragenter", () => show(1));
  node.addEventListener("dragleave", () => show(-1));
  node.addEventListener("dragover", (event) => event.preventDefault());
  node.addEventListener("drop", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    show(-depth);
    const { files, folder } = await dropped(event.dataTransfer);
    if (files.length) take(files, folder);
  });
}

/** A button that opens the choice of files. */
export function chooser(text, label, take) {
  const input = element("input", {
    type: "file",
    multiple: true,
    accept: "image/*,.heic,.heif",
    class: "unseen",
    "aria-label": label,
    onchange: () => {
      const files = [...input.files];
      input.value = ""; // the same files can be chosen again
      if (files.length) take(files);
    },
  });
  return element("label", { class: "button" }, input, element("span", { "aria-hidden": "true" }, text));
}

/** The images on a clipboard. */
export function pasted(event) {
  return [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
}
