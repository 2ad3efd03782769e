from .audit import Audit as Audit, Duplicate as Duplicate, Suspect as Suspect
from .digest import state_hash as state_hash
from .explain import Explanation as Explanation, Part as Part
from .file import read_model as read_model
from .glance import all_known as all_known
from .image_model import ImageModel as ImageModel
from .kind import require_model as require_model
from .known import KnownPhotos as KnownPhotos
from .log import Entry as Entry, last_expected as last_expected
from .named import NMC as NMC, LayNMC as LayNMC, LayUP as LayUP, load as load
from .occlusion import Heat as Heat
from .outcome import Outcome as Outcome, PhotoOutcome as PhotoOutcome
from .plan import Conflict as Conflict
from .predictions import Prediction as Prediction, Predictions as Predictions
from .reports import BatchReport as BatchReport
from .suggest import Suggestion as Suggestion, Suggestions as Suggestions
