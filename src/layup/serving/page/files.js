// Photos that people give: chosen, pasted, or dropped, also as folders.

import { element } from "./dom.js";

const LEFT_BEHIND = /^(\.|Thumbs\.db$|desktop\.ini$)/i; // what systems leave in folders

/** Whether files can be dragged here: on a phone they are chosen. */
export const canDrop = !matchMedia("(hover: none)").matches;

/** What is in a folder: files and folders. */
async function inFolder(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found.filter((entry) => !LEFT_BEHIND.test(entry.name));
    found.push(...some);
  }
}

/** All files of some entries, also those inside of folders. */
async function filesOf(entries) {
  const found = [];
  for (const entry of entries) {
    if (entry.isFile) found.push(await new Promise((resolve, reject) => entry.file(resolve, reject)));
    else found.push(...(await filesOf(await inFolder(entry))));
  }
  return found;
}

/** The photos of a folder under its name; a folder of nothing but folders stands for these. */
async function groupsOf(folder) {
  const entries = await inFolder(folder);
  if (entries.length && entries.every((entry) => entry.isDirectory)) {
    return (await Promise.all(entries.map(groupsOf))).flat();
  }
  return [{ label: folder.name, files: await filesOf(entries) }];
}

/** The files of a drop, by the names of the folders that they are in; those that are in none have no label. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [{ label: null, files: [...transfer.files] }];
  const loose = await filesOf(entries.filter((entry) => entry.isFile));
  const folders = await Promise.all(entries.filter((entry) => entry.isDirectory).map(groupsOf));
  return [{ label: null, files: loose }, ...folders.flat()].filter(({ files }) => files.length);
}

/** Let an element take photos that are dropped on it: `take` gets all of them, and by which folders they came. */
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
    show(-depth);
    if (event.defaultPrevented) return; // what is inside has taken them
    event.preventDefault();
    const groups = await dropped(event.dataTransfer);
    if (groups.length) take(groups.flatMap(({ files }) => files), groups);
  });
}

/** A button that opens the choice of files. */
export function chooser(text, label, take, properties = {}) {
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
  return element("label", { class: "button", ...properties }, input, element("span", { "aria-hidden": "true" }, text));
}

/** The images on a clipboard. */
export function pasted(event) {
  return [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
}
