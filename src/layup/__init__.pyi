from .algebra import (
    GramStatistics as GramStatistics,
    NearestMeanClassifier as NearestMeanClassifier,
    RidgeClassifier as RidgeClassifier,
)
from .backbones import Backbone as Backbone, Preprocessing as Preprocessing, load_backbone as load_backbone
from .client import Client as Client
from .errors import LayupError as LayupError
from .features import FeatureCache as FeatureCache, FeatureExtractor as FeatureExtractor, NoCache as NoCache
from .model import (
    NMC as NMC,
    ImageModel as ImageModel,
    LayNMC as LayNMC,
    LayUP as LayUP,
    from_pretrained as from_pretrained,
    load as load,
)
from .tuning import FirstSession as FirstSession

__version__: str
