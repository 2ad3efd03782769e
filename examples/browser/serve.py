"""Serve the page and a model to this machine alone: python serve.py m.onnx, and open http://127.0.0.1:8001.

Before the first time: npm ci. Nothing is uploaded here, and the page may fetch from here only.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNTIME = HERE / "node_modules" / "onnxruntime-web" / "dist"
FILES = {
    "/": HERE / "index.html",
    **{f"/{name}": HERE / name for name in ("page.js", "style.css", "icon.svg")},
    **{
        f"/ort/{name}": RUNTIME / name
        for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
    },
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
}
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Handler(SimpleHTTPRequestHandler):
    """Sends these files, and no others."""

    def __init__(self, *given: object, model: Path) -> None:
        self.files = {**FILES, "/model.onnx": model}
        self.extensions_map = TYPES
        super().__init__(*given)  # type: ignore[arg-type]

    def translate_path(self, path: str) -> str:
        """The file at an address."""
        return str(self.files.get(path.partition("?")[0], HERE / "nothing"))

    def send_head(self):  # type: ignore[no-untyped-def]
        """The head of an answer, or that there is no such file."""
        if self.path.partition("?")[0] not in self.files:
            self.send_error(404)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        """What the page may do goes with every answer."""
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def server(model: Path, port: int) -> ThreadingHTTPServer:
    """A server on this machine's own address."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, model=model))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="what `layup export m.layup --to m.onnx` wrote")
    parser.add_argument("--port", type=int, default=8001)
    chosen = parser.parse_args()
    if not chosen.model.is_file():
        parser.error(f"There is no file '{chosen.model}'.")
    if not RUNTIME.is_dir():
        parser.error(f"onnxruntime-web is missing. Install it: npm ci, in {HERE.name}/")
    with server(chosen.model.resolve(), chosen.port) as running:
        print(f"http://127.0.0.1:{running.server_port} (Ctrl-C ends it)", flush=True)
        with suppress(KeyboardInterrupt):
            running.serve_forever()


if __name__ == "__main__":
    main()
