from .auto import JUDGED as JUDGED, AutoClassifier as AutoClassifier, Prior as Prior
from .blocks import (
    AverageClassifier as AverageClassifier,
    BlocksClassifier as BlocksClassifier,
    DepthsClassifier as DepthsClassifier,
    LayersClassifier as LayersClassifier,
)
from .calibration import (
    CALIBRATION as CALIBRATION,
    Calibration as Calibration,
    plausibility as plausibility,
    softmax as softmax,
)
from .class_covariances import ClassCovariancesClassifier as ClassCovariancesClassifier
from .class_moments import ClassMoments as ClassMoments
from .class_roots import ROOTS as ROOTS, ClassRoots as ClassRoots, root_values as root_values
from .class_sums import HEADER as HEADER, SOUND as SOUND, ClassSums as ClassSums
from .classifier import SumsClassifier as SumsClassifier
from .discriminant import DiscriminantClassifier as DiscriminantClassifier
from .estimator import clone as clone
from .expectation import (
    ENOUGH as ENOUGH,
    Expected as Expected,
    Tally as Tally,
    held_out_tally as held_out_tally,
    wilson as wilson,
)
from .fold_rests import (
    mean_accuracies as mean_accuracies,
    rests as rests,
    right as right,
)
from .folds import FOLDS as FOLDS, Dealer as Dealer
from .forecasts import (
    forecast_class_sums as forecast_class_sums,
    forecast_learning as forecast_learning,
    forecast_merging as forecast_merging,
    forecast_reverting as forecast_reverting,
    forecast_solving as forecast_solving,
)
from .held_out import HeldOut as HeldOut
from .informative import most_informative as most_informative
from .kinds import restored as restored
from .lambda_grid import (
    LAMBDAS as LAMBDAS,
    SEARCHES as SEARCHES,
    Grid as Grid,
)
from .lambda_search import search_lambda as search_lambda
from .likeness import (
    Directions as Directions,
    Twins as Twins,
    directions as directions,
    limits as limits,
    twins as twins,
)
from .masking import (
    SECRET as SECRET,
    SITES as SITES,
    Words as Words,
    mask as mask,
    sums_of as sums_of,
    words_for as words_for,
    words_of as words_of,
)
from .nearest_mean import NearestMeanClassifier as NearestMeanClassifier
from .novelty import Novelty as Novelty
from .parameters import (
    KINDS as KINDS,
    METRICS as METRICS,
    RidgeOptions as RidgeOptions,
    require_rule as require_rule,
)
from .readout import Nearness as Nearness, Readout as Readout
from .residuals import ResidualSums as ResidualSums
from .ridge import (
    FIRST_LAMBDA as FIRST_LAMBDA,
    Spectrum as Spectrum,
    rounding_floor as rounding_floor,
    solve as solve,
)
from .ridge_classifier import (
    HeldOutRidgeClassifier as HeldOutRidgeClassifier,
    RidgeClassifier as RidgeClassifier,
)
from .samples import (
    Floats as Floats,
    Samples as Samples,
    drawn as drawn,
    require_precision as require_precision,
)
from .statistics import GramStatistics as GramStatistics
from .steps import EXPONENTS as EXPONENTS, Steps as Steps
from .truncated import TruncatedClassifier as TruncatedClassifier
