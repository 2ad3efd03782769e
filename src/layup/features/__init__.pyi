from .cache import FeatureCache as FeatureCache, NoCache as NoCache, ReadOnlyCache as ReadOnlyCache
from .digests import digests_of as digests_of
from .extract import (
    Extraction as Extraction,
    Extractor as Extractor,
    FeatureSource as FeatureSource,
    Rows as Rows,
    extractor_of as extractor_of,
)
from .feature_extractor import FeatureExtractor as FeatureExtractor
from .reader import (
    BadImage as BadImage,
    Survey as Survey,
    in_batches as in_batches,
    read_ahead as read_ahead,
    survey as survey,
)
from .reading import Reading as Reading, cache_of as cache_of, in_a_pool as in_a_pool
from .rounding import RoundedRows as RoundedRows
from .sources import (
    FourierRows as FourierRows,
    JoinedRows as JoinedRows,
    MeanRows as MeanRows,
    NormalisedRows as NormalisedRows,
    ProjectedRows as ProjectedRows,
)
from .specs import (
    EMBEDDING as EMBEDDING,
    Embedding as Embedding,
    FeatureSpec as FeatureSpec,
    Fourier as Fourier,
    FrozenAndTuned as FrozenAndTuned,
    LastLayers as LastLayers,
    MeanOfLayers as MeanOfLayers,
    Normalised as Normalised,
    OneLayer as OneLayer,
    Projected as Projected,
    Rounded as Rounded,
    spec_from as spec_from,
)
from .spool import Spool as Spool
