"""What reading all layers costs, and what a larger input costs.

    python -m benchmarks.extraction

First table: one batch of 32 through the bare network, and through `Backbone`, which also reads every layer;
1.000 means nothing extra. Second table: the bundled network at several sizes, each beside 224 × 224.
"""

from __future__ import annotations

from functools import partial

import torch
from rich.console import Console
from rich.table import Table

from layup.backbones import BACKBONES, Backbone, load_backbone
from layup.bench.timing import compare
from layup.features import BATCH


def batch_for(backbone: Backbone) -> torch.Tensor:
    """Noise in the layout that suits the network: what is compared is not the layout."""
    return torch.rand(BATCH, 3, *backbone.preprocessing.size).to(memory_format=backbone.memory_format)


def layers_against_plain(console: Console) -> None:
    table = Table("backbone", "pixels", "plain images/s", "all layers images/s", "ratio (95 % interval)")
    for name in BACKBONES:
        backbone = load_backbone(name, device="cpu")
        batch = batch_for(backbone)
        ratio = compare(partial(plain_pass, backbone.network, batch), partial(backbone, batch))
        speeds = [f"{BATCH / seconds:.0f}" for seconds in (ratio.first_seconds, ratio.second_seconds)]
        table.add_row(name, str(backbone.preprocessing.size[0]), *speeds, str(ratio))
    console.print(table)


def sizes_against_224(console: Console) -> None:
    table = Table("pixels", "images/s", "times as fast as 224 (95 % interval)")
    large = load_backbone("bundled", input_size=224, device="cpu")
    for size in (96, 128, 160, 192):
        small = load_backbone("bundled", input_size=size, device="cpu")
        ratio = compare(partial(large, batch_for(large)), partial(small, batch_for(small)), pairs=15)
        table.add_row(str(size), f"{BATCH / ratio.second_seconds:.0f}", str(ratio))
    console.print(table)


def plain_pass(network: torch.nn.Module, batch: torch.Tensor) -> None:
    with torch.inference_mode():
        network(batch)


def main() -> None:
    console = Console(width=110)
    layers_against_plain(console)
    sizes_against_224(console)


if __name__ == "__main__":
    main()
