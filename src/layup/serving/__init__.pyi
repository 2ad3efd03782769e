from .app import create_app as create_app
from .demo import DemoPhotos as DemoPhotos, demo as demo
from .guard import Hosts as Hosts, Tokens as Tokens, require_token as require_token
from .installed import require_installed as require_installed
from .label_studio import Teacher as Teacher, following as following
from .limits import RequestLimits as RequestLimits
from .live import Limits as Limits, LiveModel as LiveModel
from .server import address_of as address_of, listening as listening, serve as serve
from .service import Service as Service
from .snapshot import Answer as Answer, Facts as Facts
