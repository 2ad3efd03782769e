from . import growth as growth, runs as runs, search as search, streaming as streaming, sweep as sweep
from .report import Report as Report, filled as filled
from .timing import (
    Ratio as Ratio,
    Work as Work,
    compare as compare,
    interleaved as interleaved,
    ratio as ratio,
)
