from .cache import FeatureCache as FeatureCache, NoCache as NoCache
from .extract import (
    EMBEDDING as EMBEDDING,
    Extractor as Extractor,
    FeatureSource as FeatureSource,
    Rows as Rows,
)
from .reader import (
    BadImage as BadImage,
    Survey as Survey,
    in_batches as in_batches,
    read_ahead as read_ahead,
    survey as survey,
)
from .specs import Joined as Joined, Projected as Projected, require_width as require_width
from .spool import Spool as Spool
