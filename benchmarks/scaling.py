"""What a plan costs here, part by part; two workers against one, Ray against a loop; and what it predicts.

    python -m benchmarks.scaling [--photos FOLDER] [--images 2000] [--size 250] [--rounds 5] [--no-ray]
                                 [--small] [--page docs/scaling.md]

Measures in processes with one thread each: the parts of `scaling_model`, in seconds of processor (but for
writing), which others disturb less; then in turn, as often as --rounds says, all slices of a plan in one
process, in two, and in one of Ray's; and the merge. The model predicts the same from the parts. Then it
predicts what cannot be measured here: up to 10⁹ images and 1,000 workers. Times of ViT-B and ViT-L are of
networks with random weights, which take as long as learned ones.

--photos: what `layup learn` takes; without it, scikit-learn's digits. --small: less time, to see that it
works: no ViT-L, small matrices. --page: write the tables into this page, between their marks. Give it an idle
machine with two cores.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.marks import filled
from benchmarks.scaling_model import Job, Speeds, Times, most_useful, predicted
from benchmarks.scaling_parts import measured_speeds, passing_of
from benchmarks.scaling_runs import Pool, Runs, runs
from layup import LayUP, storage
from layup.cli.digits import digits_tasks
from layup.formats import size_of
from layup.images import labelled_photos
from layup.performance import ratio
from layup.sharding import Plan
from layup.tables import Table, to_markdown

ALIKE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAY_worker_niceness": "0",
}
"""The environment of all processes: one thread each, and Ray's do not step back behind the others."""
NETWORKS = {"ViT-B": ("vit_base_patch16_224", 768), "ViT-L": ("vit_large_patch16_224", 1024)}
KS = (1, 6, 12)
CLASSES = 1000
IMAGES = tuple(10**power for power in range(6, 10))
WORKERS = (1, 10, 100, 1000)
WIDTHS, SMALL_WIDTHS = (768, 2304, 4608), (256, 512)
"""d at which sums and solves are timed; the last is what the model takes."""


def lasting(seconds: float) -> str:
    """A time in its largest unit.

    >>> [lasting(each) for each in (0.2, 90, 7200, 10**6, 10**9)]
    ['0.2 s', '2 min', '2 h', '12 days', '32 years']
    """
    for unit, length in (("years", 31_557_600), ("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.2g} s"


def shown(found: Any) -> str:
    """The best and the median of some seconds."""
    return f"{found.min():.2f} s ({np.median(found):.2f} s)"


def measured_table(speeds: Speeds, passing: float, network: str) -> Table:
    """The constants."""
    rows = [
        ["read an image (open, decode, resize)", f"{speeds.reading * 1e3:.2f} ms"],
        [f"pass it through {network}", f"{passing * 1e3:.2f} ms"],
        ["add it to the sums, per d²", f"{speeds.adding * 1e9:.3f} ns"],
        ["solve, per d³", f"{speeds.solving * 1e9:.3f} ns"],
        ["write a shard, per MB", f"{speeds.storing * 1e9:.2f} ms"],
        ["read and add a shard, per MB", f"{speeds.merging * 1e9:.2f} ms"],
        ["check a shard, per d³", f"{speeds.checking * 1e9:.3f} ns"],
        ["start a worker", f"{speeds.starting:.1f} s"],
    ]
    return Table.of(["what", "takes one processor"], rows)


def checked_table(found: Runs, job: Job, speeds: Speeds) -> Table:
    """What was measured of a plan, and what the model says."""
    size = -(-job.images // len(found.plan.slices))
    first, second = (computing(predicted(job, workers, speeds, size)) for workers in (1, 2))
    merge = predicted(job, 1, speeds, size)
    two = ratio(found.one, found.two)
    rows = [
        ["one worker, seconds of processor", f"{found.processor[0]:.2f} s", f"{first:.2f} s"],
        ["two workers, seconds of processor", f"{found.processor[1]:.2f} s", f"{2 * second:.2f} s"],
        ["one worker", shown(found.one), f"{first:.2f} s"],
        ["two workers", shown(found.two), f"{second:.2f} s"],
        ["one against two, best", f"{found.one.min() / found.two.min():.2f} ×", f"{first / second:.2f} ×"],
        ["one against two, median of pairs (lowest … highest)", str(two), ""],
        ["merge", f"{found.merging:.2f} s", f"{merge.merging + merge.solving:.2f} s"],
        ["moved per image, lists and shards", size_of(found.bytes / job.images), ""],
    ]
    if len(found.ray):
        best_ratio = found.loop.min() / found.ray.min()
        rows.append(["Ray against a loop, one worker, best", f"{best_ratio:.2f} ×", ""])
        rows.append(["the same, median of pairs", str(ratio(found.loop, found.ray)), ""])
    what = f"{job.images:,} images in {len(found.plan.slices)} slices"
    return Table.of([what, "measured: best (median)", "predicted"], rows)


def computing(times: Times) -> float:
    """What workers do, without their start."""
    return times.reading + times.passing + times.adding + times.storing


def networks_table(passing: dict[str, float], speeds: Speeds) -> Table:
    """What an image and a shard cost, for each network and k."""
    rows = []
    for name, seconds in passing.items():
        for k in KS:
            job = Job(1, CLASSES, k * NETWORKS[name][1], seconds)
            adding = speeds.adding * job.width**2
            rows.append(
                [
                    f"{name}, k = {k}",
                    f"{job.width:,}",
                    f"{seconds * 1e3:.0f} ms",
                    f"{adding * 1e3:.2f} ms",
                    f"{1 / adding:,.0f}",
                    size_of(job.shard_bytes(1)),
                    lasting(speeds.solving * job.width**3),
                ]
            )
    columns = ["network", "d", "pass", "add", "images/s that one processor adds", "shard", "one solve"]
    return Table.of(columns, rows)


def times_table(passing: dict[str, float], speeds: Speeds) -> Table:
    """How long so many images take so many workers."""
    rows = []
    for name, seconds in passing.items():
        for k in KS:
            for images in IMAGES:
                job = Job(images, CLASSES, k * NETWORKS[name][1], seconds)
                found = [predicted(job, workers, speeds) for workers in WORKERS]
                last = found[-1]
                share = f"{last.longest} {100 * getattr(last, last.longest) / last.total:.0f} %"
                rows.append(
                    [
                        f"{name}, k = {k}",
                        f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[len(str(images)) - 1]}",
                        *[lasting(each.total) for each in found],
                        share,
                        f"{most_useful(job, speeds):,}",
                    ]
                )
    heads = [f"{workers:,}" for workers in WORKERS]
    return Table.of(["network", "images", *heads, f"longest at {WORKERS[-1]:,}", "fastest with"], rows)


def planned(home: Path, photos: str | None, images: int, size: int) -> Plan:
    """A plan of these photos, or of digits."""
    if photos is None:
        folder = home / "digits"
        folder.mkdir()
        pixels, labels = digits_tasks()[0].train
        for number in range(images):
            turn = number % len(labels)  # with a mark, or they would be the same photos
            picture = np.array(pixels[turn])
            picture.flat[number // len(labels)] ^= 1
            path = folder / labels[turn] / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(picture).save(path)
        photos = str(folder)
    pairs = [*labelled_photos(photos)]
    chosen = np.random.default_rng(0).permutation(len(pairs))[:images]
    return Plan.write(home / "plan", [pairs[i] for i in sorted(chosen)], LayUP("vit-nano"), size)


def measured_and_predicted(chosen: argparse.Namespace) -> dict[str, Table]:
    """All tables, by their marks."""
    named = {"ViT-B": NETWORKS["ViT-B"]} if chosen.small else NETWORKS
    with tempfile.TemporaryDirectory() as home:
        os.environ["LAYUP_KEYS"] = f"{home}/keys"
        plan = planned(Path(home), chosen.photos, chosen.images, chosen.size)
        one = Pool(plan, 1)
        speeds, passing = measured_speeds(one, SMALL_WIDTHS if chosen.small else WIDTHS)
        larger = {name: one.measured(passing_of, timm_name) for name, (timm_name, _) in named.items()}
        found = runs(plan, one, chosen.rounds, not chosen.no_ray)
        one.processes.shutdown()
        labels = {label for number in range(len(plan.slices)) for label in plan.photos(number).labels}
        job = Job(plan.images, len(labels), plan.start().statistics_.dim, passing)
    return {
        "scaling, measured": measured_table(speeds, passing, "vit-nano"),
        "scaling, checked": checked_table(found, job, speeds),
        "scaling, networks": networks_table(larger, speeds),
        "scaling, times": times_table(larger, speeds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--photos")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--size", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--page", type=Path)
    chosen = parser.parse_args()
    os.environ.update(ALIKE)
    for mark, table in measured_and_predicted(chosen).items():
        text = to_markdown(table)
        print(f"\n{text}")
        if chosen.page:
            storage.write_text(chosen.page, filled(chosen.page.read_text("utf-8"), mark, text))


if __name__ == "__main__":
    main()
