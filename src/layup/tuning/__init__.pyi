from .adaptation import adapt as adapt, parts as parts
from .augmentation import (
    AUGMENTATIONS as AUGMENTATIONS,
    augmented as augmented,
    require_augmentation as require_augmentation,
)
from .config import (
    AUTO as AUTO,
    PRESETS as PRESETS,
    WAYS as WAYS,
    FirstSession as FirstSession,
    Wanted as Wanted,
    Way as Way,
    prepared as prepared,
    preprocessed as preprocessed,
    split as split,
)
from .optimizers import (
    Groups as Groups,
    annealed as annealed,
    grouped as grouped,
    load_optimizer_state as load_optimizer_state,
    optimizer_state as optimizer_state,
)
from .pictures import Batch as Batch, Pictures as Pictures, shuffled as shuffled
from .trainer import (
    Checkpoint as Checkpoint,
    Recipe as Recipe,
    Trainable as Trainable,
    Trainer as Trainer,
    as_arrays as as_arrays,
    as_tensors as as_tensors,
    split_off as split_off,
)
