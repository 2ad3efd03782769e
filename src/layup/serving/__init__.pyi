from .live import LiveModel as LiveModel
from .snapshot import Answer as Answer, Facts as Facts
