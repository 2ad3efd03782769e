"""`make torture`: every promise of layup is tried, thousands of times, on all cores; 20 minutes to an hour.

python -m torture                                        all of it, as docs/reliability.md has it
python -m torture kills mutations --seed 7 --tries 1000  these two, so often, other tries
python -m torture mutations --seed 7 --only 4711         one try alone, once more
python -m torture --markdown docs/reliability.md         and put the table where it belongs
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from threadpoolctl import threadpool_limits

from layup.cli import console
from torture import report
from torture.promises import PROMISES
from torture.runner import Outcome, run
from torture.samples import one_thread


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the chosen promises; 1 if one was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m torture", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("promises", nargs="*", metavar="PROMISE", help=f"of {', '.join(PROMISES)}")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other tries")
    parser.add_argument("--tries", type=int, help="of each promise, instead of its own number")
    parser.add_argument("--only", type=int, metavar="INDEX", help="this try alone, of one promise")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep everything, with each failure")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="keep the table of all promises")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.promises if name not in PROMISES]:
        parser.error(f"there is no promise {unknown[0]!r}: choose from {', '.join(PROMISES)}")
    if chosen.only is not None and len(chosen.promises) != 1:
        parser.error("--only is one try of one promise: name it")
    if chosen.markdown and chosen.promises:
        parser.error("--markdown keeps the table of all promises: name none, or keep these with --json")
    one_thread()
    outcomes: list[Outcome] = []
    with threadpool_limits(1):
        for name in chosen.promises or PROMISES:
            outcome = run(
                PROMISES[name], chosen.seed, tries=chosen.tries, only=chosen.only, workers=chosen.workers
            )
            outcomes.append(outcome)
            for line in report.explained(outcome, chosen.seed):
                console.remark(line)
    if chosen.only is not None:
        for failure in outcomes[0].failures:
            console.remark(failure.trace)
    console.table(report.COLUMNS, report.rows(outcomes), texts=2)
    if chosen.json:
        report.write_json(chosen.json, outcomes, chosen.seed)
    if chosen.markdown:
        tries = [] if chosen.tries is None else ["--tries", str(chosen.tries)]
        options = ["--seed", str(chosen.seed), *tries, "--workers", str(chosen.workers)]
        report.write_markdown(chosen.markdown, outcomes, " ".join(["python -m torture", *options]))
    return int(any(outcome.failures for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
