// The server's answers: tokens, waiting when it is busy, and keys so that what is sent twice counts once.

const PATIENCE = 5; // times that a request is sent before its error is shown

/** What the server, or the way to it, said against a request, as a sentence. */
export class ServerError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** A key that no other request has. Not `randomUUID`: that is missing where a page is not served by HTTPS. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** How long to wait before sending again, in seconds. */
export function delay(response, attempt) {
  const said = Number.parseFloat(response?.headers.get("Retry-After") ?? "");
  return Number.isFinite(said) && said >= 0 ? Math.min(said, 30) : Math.min(0.25 * 2 ** attempt, 8);
}

/** A pause that can be cancelled. */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, 1000 * seconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** The response; null if the server cannot be reached. */
async function reach(path, request) {
  try {
    return await fetch(path, request);
  } catch (error) {
    if (request.signal?.aborted) throw error;
    return null;
  }
}

async function errorOf(response) {
  if (!response) return new ServerError(0, "unreachable", "The server cannot be reached. Is it still running?");
  const said = await response.json().catch(() => null);
  const message = said?.error?.message ?? `The server answered with ${response.status}, and gave no reason.`;
  return new ServerError(response.status, said?.error?.code ?? "", message);
}

export class Api {
  #tokens;

  /** @param {{token: string|null, ask: () => Promise<string>}} tokens */
  constructor(tokens) {
    this.#tokens = tokens;
  }

  get(path) {
    return this.#answer(path, {}).then((response) => response.json());
  }

  blob(path) {
    return this.#answer(path, {}).then((response) => response.blob());
  }

  /** Post what only reads: photos to look at. */
  look(path, body, signal) {
    return this.#answer(path, { method: "POST", body, signal }).then((response) => response.json());
  }

  /** Post a change. All attempts have the same key, so it counts once, also if an answer got lost. */
  change(path, body, signal) {
    const headers = { "Idempotency-Key": newKey() };
    if (!(body instanceof FormData)) {
      headers["Content-Type"] = "application/json";
      body = JSON.stringify(body);
    }
    return this.#answer(path, { method: "POST", body, headers, signal }).then((response) => response.json());
  }

  async #answer(path, request) {
    for (let attempt = 1; ; attempt++) {
      const token = this.#tokens.token;
      const headers = { ...request.headers, ...(token && { Authorization: `Bearer ${token}` }) };
      const response = await reach(path, { ...request, headers });
      if (response?.ok) return response;
      if (response?.status === 401) {
        await this.#tokens.ask(token);
        continue;
      }
      const busy = !response || response.status === 429 || response.status === 503;
      if (!busy || attempt === PATIENCE) throw await errorOf(response);
      await pause(delay(response, attempt), request.signal);
    }
  }
}

/** The form of some photos, with more fields; one of several values is there several times. */
export function formOf(photos, fields = {}) {
  const form = new FormData();
  for (const [name, values] of Object.entries(fields)) for (const value of [values].flat()) form.append(name, value);
  for (const photo of photos) form.append("images", photo.file, photo.name);
  return form;
}
