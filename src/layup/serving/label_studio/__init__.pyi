from . import messages as messages
from .labelling import Labelling as Labelling
from .ledger import Ledger as Ledger, Statement as Statement
from .messages import Event as Event, Setup as Setup, Wanted as Wanted
from .predicting import predict as predict, version_of as version_of
from .studio import Studio as Studio
from .teacher import Teacher as Teacher, following as following
