"""`make bench`: every benchmark that needs no data, one after another, and docs/performance.md from them.

python -m benchmarks              extraction, `layup bench --check`, the sweep of the bundled network (hours)
python -m benchmarks.startup      how long commands and errors take, against `import torch` (minutes)
python -m benchmarks.page         docs/performance.md from the numbers in docs/performance/
python -m benchmarks.choices      input size, k, λ rule, balance (needs images; about 25 minutes)
python -m benchmarks.heads        the default classifier against others (needs images; about half an hour)
python -m benchmarks.head_parts   what each of its parts brings (needs images)
python -m benchmarks.head_tasks   that it does not depend on tasks (needs images)
python -m benchmarks.head_costs   its seconds, against the paper's search for λ
python -m benchmarks.strength     the strength of λ, searched or not, on photos and on digits (needs images)
python -m benchmarks.certainty    confidence, sets of labels, and what is unknown (needs images; half an hour)
python -m benchmarks.unknown      "none of these", from the first photo on (needs images)
python -m benchmarks.low_data     few images per class, and small classes among large ones (needs images)
python -m benchmarks.wide_grid    λ beyond the paper's grid (needs images)
python -m benchmarks.expected     the accuracy to expect, and that on other photos (needs images)
python -m benchmarks.audit        planted wrong labels, and labels saved by suggestions (needs images)
python -m benchmarks.costs        what methods keep and compute, as the paper counts and in bytes
python -m benchmarks.online       float32 against float64, accuracy over N/d (needs images)
python -m benchmarks.known_photos what it costs that a model knows a million photos
python -m benchmarks.planning     plans and merges of a million photos: seconds and memory
python -m benchmarks.gathering    reading a shard against adding it
python -m benchmarks.scaling      plans: what parts cost, two workers, Ray, and 10⁹ images (minutes)
python -m benchmarks.serving      a server at rising load, against a bare forward pass (about 15 minutes)
python -m benchmarks.method_table all methods: accuracy and what it costs (needs images; hours)
python -m benchmarks.exact_sums   rounding features so that sums are exact (needs images)
python -m benchmarks.notebooks    the notebooks of the docs, executed again (minutes)
python -m benchmarks.export       what exported models lose, gain and reveal (needs images)
python -m benchmarks.task_heads   heads trained task by task on a frozen network (needs images)
"""

from __future__ import annotations

from benchmarks import extraction, page
from layup.cli import app

if __name__ == "__main__":
    extraction.main()
    for what in (["all", "--check"], ["sweep", "--backbone", "bundled", "--pairs", "1"]):
        app(["bench", *what, "--save", str(page.NUMBERS)], standalone_mode=False)
    page.main()
