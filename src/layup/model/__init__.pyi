from .file import read_model as read_model
from .image_model import (
    BatchReport as BatchReport,
    ImageModel as ImageModel,
    Predictions as Predictions,
    mixed_engines as mixed_engines,
)
from .named import NMC as NMC, LayNMC as LayNMC, LayUP as LayUP, load as load
