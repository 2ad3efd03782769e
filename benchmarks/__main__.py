"""`make bench`: every benchmark that needs no data, one after another.

python -m benchmarks              extraction
python -m benchmarks.choices      input size, k, λ rule, balance (needs images; about 25 minutes)
python -m benchmarks.adaptation   what each adapter brings (needs images; more than an hour)
"""

from __future__ import annotations

from benchmarks import extraction

if __name__ == "__main__":
    extraction.main()
