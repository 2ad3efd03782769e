from .adaptation import adapt as adapt
from .config import (
    AUTO as AUTO,
    PRESETS as PRESETS,
    FirstSession as FirstSession,
    Wanted as Wanted,
    preprocessed as preprocessed,
    split as split,
)
from .trainer import (
    Batch as Batch,
    Pictures as Pictures,
    annealed as annealed,
    load_optimizer_state as load_optimizer_state,
    optimizer_state as optimizer_state,
)
