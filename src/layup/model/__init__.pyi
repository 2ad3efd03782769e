from .file import read_model as read_model
from .image_model import (
    Answers as Answers,
    ImageModel as ImageModel,
    Reading as Reading,
    extractor_of as extractor_of,
    mixed_engines as mixed_engines,
)
from .named import (
    NMC as NMC,
    EmbeddingModel as EmbeddingModel,
    LayNMC as LayNMC,
    LayUP as LayUP,
    RidgeModel as RidgeModel,
    RidgeOfLayersModel as RidgeOfLayersModel,
)
