from .live import Limits as Limits, LiveModel as LiveModel
from .snapshot import Answer as Answer, Facts as Facts
