"""`make bench`: every benchmark that needs no data, one after another.

python -m benchmarks              extraction
python -m benchmarks.choices      input size, k, λ rule, balance (needs images; about 25 minutes)
python -m benchmarks.low_data     few images a class, and small classes beside large ones (needs images)
"""

from __future__ import annotations

from benchmarks import extraction

if __name__ == "__main__":
    extraction.main()
