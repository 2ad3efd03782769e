"""A server of layup that also serves a bare forward pass: what HTTP and a network cost alone.

    python -m benchmarks.bare FOLDER [--network bundled]

The server is that of `layup serve`, of a new model in a file in this folder, whose cache is there as well. It
takes as many requests of one client as come. Four more paths:

POST /bare              reads a request and drops it, and is answered after a forward pass of the plain
                        network on a batch that was decoded before, with as many images as requests wait, up
                        to 16
POST /photo             the same with the photo that was sent: the form is read, and the photo decoded and
                        resized, in as many threads as `layup serve` has for that; answers with the number of
                        the largest output
POST /passes?seconds=1  makes passes of 16 images for so long, with no requests at all, and says how many
                        images that is per second
GET /spent              how many passes of `layup serve` there were, of how many images, and for how many
                        seconds the cores have worked
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import torch
from fastapi import FastAPI, Request
from torch import Tensor

from layup import LayUP
from layup.backbones import Backbone
from layup.features import FeatureCache
from layup.images import open_image
from layup.serving import (
    Hosts,
    LiveModel,
    RequestLimits,
    Service,
    Tokens,
    address_of,
    create_app,
    listening,
    serve,
)
from layup.serving.network import READERS
from layup.serving.service import TheRoom, TheService
from layup.serving.uploads import receive_upload

HOST = "127.0.0.1"
TOGETHER = 16


class BarePass:
    """A network on images that were decoded long ago, or are given: one pass for all who wait, up to 16."""

    def __init__(self, backbone: Backbone) -> None:
        pixels = torch.rand(TOGETHER, 3, *backbone.preprocessing.size)
        self.format = backbone.memory_format
        self.pixels = pixels.to(memory_format=self.format)
        self.network = deepcopy(backbone.network)  # whose passes are not counted
        self.thread = ThreadPoolExecutor(1, "bare pass")
        self.waiting: list[tuple[asyncio.Future[int], Tensor | None]] = []
        self.passing: asyncio.Task[None] | None = None

    async def one(self, pixels: Tensor | None = None) -> int:
        """The number of the largest output for this caller's image, or for one that was decoded long ago."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiting.append((done, pixels))
        if self.passing is None:
            self.passing = asyncio.create_task(self._passes())
        return await done

    def for_seconds(self, seconds: float) -> float:
        """Images per second, in full passes alone."""
        began, images = time.perf_counter(), 0
        while (spent := time.perf_counter() - began) < seconds:
            self._compute([None] * TOGETHER)
            images += TOGETHER
        return images / spent

    async def _passes(self) -> None:
        """Passes until nobody waits; who comes meanwhile is in the next."""
        loop = asyncio.get_running_loop()
        while self.waiting:
            now, self.waiting = self.waiting[:TOGETHER], self.waiting[TOGETHER:]
            try:
                found = await loop.run_in_executor(self.thread, self._compute, [pixels for _, pixels in now])
            except Exception as error:
                for done, _ in now:
                    done.set_exception(error)
                continue
            for (done, _), largest in zip(now, found, strict=True):
                done.set_result(largest)
        self.passing = None

    def _compute(self, images: Sequence[Tensor | None]) -> list[int]:
        given = [pixels for pixels in images if pixels is not None]
        batch = torch.stack(given).to(memory_format=self.format) if given else self.pixels[: len(images)]
        with torch.inference_mode():
            found: list[int] = self.network(batch).flatten(1).argmax(1).tolist()
        return found


class Spent:
    """How many passes a network has made, of how many images, and the seconds that all cores have worked."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        self.passes = 0
        backbone.network.register_forward_pre_hook(self._count)

    def _count(self, *_: object) -> None:
        self.passes += 1

    def said(self) -> dict[str, float]:
        """All three, so far."""
        return {
            "passes": self.passes,
            "images": self.backbone.passes.reading,
            "cores": time.process_time(),
        }


def add_paths(app: FastAPI, backbone: Backbone, spent: Spent) -> None:
    """The four paths that `layup serve` does not have."""
    bare, sent = BarePass(backbone), BarePass(backbone)
    decoding = ThreadPoolExecutor(READERS, "decoding")

    @app.post("/bare")
    async def one(request: Request) -> dict[str, bool]:
        async for _ in request.stream():
            pass
        await bare.one()
        return {"done": True}

    def decoded(contents: bytes) -> Tensor:
        return backbone.preprocess(open_image(contents))

    @app.post("/photo")
    async def photo(request: Request, service: TheService, take: TheRoom) -> dict[str, int]:
        upload = await receive_upload(request, service.limits, take)
        contents = bytes(upload.photos[0].data)
        pixels = await asyncio.get_running_loop().run_in_executor(decoding, decoded, contents)
        return {"largest": await sent.one(pixels)}

    @app.post("/passes")
    async def passes(seconds: float) -> dict[str, float]:
        loop = asyncio.get_running_loop()
        return {"per_second": await loop.run_in_executor(bare.thread, bare.for_seconds, seconds)}

    @app.get("/spent")
    async def said() -> dict[str, float]:
        return spent.said()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--network", default="bundled")
    chosen = parser.parse_args()
    os.environ["LAYUP_KEYS"] = str(chosen.folder / "keys")
    model = LayUP(chosen.network, cache=FeatureCache(chosen.folder / "cache"), progress=False)
    limits = RequestLimits(rate=1e6, burst=10**6)
    path = chosen.folder / "model.layup"
    with listening(HOST, 0) as bound, LiveModel.open(path, new=lambda: model) as live:
        app = create_app(Service.of(live, Hosts.of(HOST), Tokens(), limits, None))
        add_paths(app, model.backbone_, Spent(model.backbone_))
        serve(app, bound, limits, lambda: print(address_of(bound, HOST), flush=True))


if __name__ == "__main__":
    main()
