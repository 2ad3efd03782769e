// Small pictures of photos, for this tab only: a few kilobytes each, whatever the size of the photo.

const SIDE = 320; // pixels: twice what is shown, for fine screens

const made = new Set();

/** The address of a small picture of a file; null if the browser cannot read it. */
export async function thumbnail(file) {
  try {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    bitmap.close();
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/webp", 0.85));
    const url = URL.createObjectURL(blob);
    made.add(url);
    return url;
  } catch {
    return null; // a format that only the server reads, or no image at all: the server will say
  }
}

/** Free the pictures of photos that are no longer there. */
export function sweep(state) {
  const used = new Set([...state.taught.values(), ...state.asked].map((photo) => photo.thumb));
  for (const url of made) {
    if (used.has(url)) continue;
    URL.revokeObjectURL(url);
    made.delete(url);
  }
}
