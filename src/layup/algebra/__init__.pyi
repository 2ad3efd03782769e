from .classifier import (
    DiscriminantClassifier as DiscriminantClassifier,
    HeldOutRidgeClassifier as HeldOutRidgeClassifier,
    NearestMeanClassifier as NearestMeanClassifier,
    RidgeClassifier as RidgeClassifier,
    SumsClassifier as SumsClassifier,
    require_metric as require_metric,
    require_number as require_number,
    require_rule as require_rule,
)
from .lambda_search import (
    FOLDS as FOLDS,
    LAMBDAS as LAMBDAS,
    LARGE_FOLD as LARGE_FOLD,
    search_blocks as search_blocks,
    search_lambda as search_lambda,
)
from .ridge import (
    FIRST_LAMBDA as FIRST_LAMBDA,
    Solution as Solution,
    Spectrum as Spectrum,
    rounding_floor as rounding_floor,
    solve as solve,
)
from .statistics import (
    CHUNK as CHUNK,
    HEADER as HEADER,
    PRECISIONS as PRECISIONS,
    SOUND as SOUND,
    ClassSums as ClassSums,
    Floats as Floats,
    GramStatistics as GramStatistics,
    require_precision as require_precision,
)
from .symmetric import Triangle as Triangle
