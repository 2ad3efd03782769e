from .audit import (
    Audit as Audit,
    Confusion as Confusion,
    Duplicate as Duplicate,
    KnownAudit as KnownAudit,
    Suspect as Suspect,
    audit_known as audit_known,
)
from .digest import state_hash as state_hash
from .draft import (
    Draft as Draft,
    GivenPhotos as GivenPhotos,
    forgot as forgot,
    forgot_class as forgot_class,
    forgot_ids as forgot_ids,
    renamed as renamed,
    taught as taught,
    undone as undone,
)
from .estimate import Estimate as Estimate
from .explain import Explanation as Explanation, Part as Part
from .file import (
    ModelFile as ModelFile,
    read_model as read_model,
    replay as replay,
    written_with as written_with,
)
from .glance import all_known as all_known
from .hub import fetched as fetched
from .image_model import ImageModel as ImageModel
from .image_predictor import ImagePredictor as ImagePredictor
from .journal import (
    MOST_ANSWERS as MOST_ANSWERS,
    Answered as Answered,
    Filed as Filed,
    Journal as Journal,
    Record as Record,
    answers_of as answers_of,
    begin_journal as begin_journal,
    beside as beside,
    mark_of as mark_of,
    read_journal as read_journal,
    read_records as read_records,
    recent_answers as recent_answers,
)
from .kind import (
    is_onnx as is_onnx,
    is_predict_only as is_predict_only,
    require_model as require_model,
    require_no_graph as require_no_graph,
    require_predictor as require_predictor,
)
from .knowledge import Knowledge as Knowledge
from .known import KnownPhotos as KnownPhotos
from .lesson import Lesson as Lesson, Photos as Photos
from .log import Entry as Entry, last_expected as last_expected
from .named import (
    NMC as NMC,
    LayNMC as LayNMC,
    LayUP as LayUP,
    from_pretrained as from_pretrained,
    load as load,
)
from .occlusion import Heat as Heat
from .outcome import Outcome as Outcome, PhotoOutcome as PhotoOutcome
from .photo_features import PhotoFeatures as PhotoFeatures
from .plan import Conflict as Conflict
from .predict_only import PredictOnly as PredictOnly
from .predict_only_file import read_predict_only as read_predict_only
from .predictions import Prediction as Prediction, Predictions as Predictions
from .predictor import Predictor as Predictor
from .pseudonyms import Pseudonyms as Pseudonyms
from .reports import BatchReport as BatchReport
from .spread import spread_predictions as spread_predictions
from .suggest import Suggestion as Suggestion, Suggestions as Suggestions
