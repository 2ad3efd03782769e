// Many photos: sent in requests of a few, a few at a time, with progress, and cancelled as one.

import { ServerError } from "./api.js";

const MOST = 16; // photos in one request: what the network looks at in one go
const LARGEST = 24 * 2 ** 20; // bytes in one request, if one photo alone is not more
const AT_ONCE = 2;

/** The photos in parts that are small enough for one request. */
export function parts(photos, most = MOST, largest = LARGEST) {
  const found = [];
  let bytes = Infinity;
  for (const photo of photos) {
    if (bytes + photo.file.size > largest || found.at(-1)?.length === most) {
      found.push([]);
      bytes = 0;
    }
    found.at(-1).push(photo);
    bytes += photo.file.size;
  }
  return found;
}

/**
 * Send the photos in parts; `done` gets each answer with its photos, in the order in which answers come.
 * A part that is too large for the server is halved; one photo that is too large fails alone.
 */
export async function sendAll(photos, { send, done, refused, signal, most }) {
  const waiting = parts(photos, most);
  async function worker() {
    while (waiting.length && !signal.aborted) {
      const part = waiting.shift();
      try {
        await done(part, await send(part, signal));
      } catch (error) {
        if (!(error instanceof ServerError) || error.status !== 413) {
          waiting.length = 0; // the other worker ends after what it sends just now
          throw error;
        }
        if (part.length === 1) refused(part[0], error.message);
        else waiting.unshift(part.slice(0, part.length / 2), part.slice(part.length / 2));
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
