from .backbone import (
    BATCH as BATCH,
    Activations as Activations,
    Backbone as Backbone,
    Layer as Layer,
)
from .engines import EAGER as EAGER, ENGINES as ENGINES
from .folding import folded as folded
from .hub import unreachable as unreachable
from .licences import licence_of as licence_of, repository_of as repository_of
from .loading import (
    BACKBONES as BACKBONES,
    elsewhere as elsewhere,
    full_name as full_name,
    load_backbone as load_backbone,
)
from .modules import around_same_weights as around_same_weights
from .passes import Passes as Passes
from .pooling import Pooling as Pooling
from .preprocessing import Preprocessing as Preprocessing
from .timm_models import timm_backbone as timm_backbone, timm_names as timm_names
