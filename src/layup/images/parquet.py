"""Tables in Parquet files, read some rows at a time with the package pyarrow (`layup-cl[parquet]`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from layup.errors import InputError, MissingPackageError
from layup.formats import brief

ENDING = ".parquet"
ROWS = 10_000
"""How many rows are held at a time."""
BUFFER = 1 << 20
"""Bytes of a column that are read together: otherwise all that were written together."""


def is_parquet(path: Path) -> bool:
    """Whether a file's name is that of a Parquet file.

    >>> is_parquet(Path("labels.parquet")), is_parquet(Path("labels.csv"))
    (True, False)
    """
    return path.name.lower().endswith(ENDING)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A table, open for reading: its columns are `schema_arrow.names`."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingPackageError(
            f"Reading {str(path)!r} needs another package. Run pip install 'layup-cl[parquet]'."
        ) from error
    try:
        with ParquetFile(path, buffer_size=BUFFER) as table:
            yield table
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read ({brief(str(error))}).") from error


def rows_of(table: Any, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    """The values of these columns, row by row."""
    for batch in table.iter_batches(ROWS, columns=[*dict.fromkeys(columns)]):
        names = batch.schema.names
        yield from zip(*(batch.columns[names.index(name)].to_pylist() for name in columns), strict=True)
