from . import analysis as analysis, claims as claims, costs as costs, page as page
from .config import (
    ReproductionConfig as ReproductionConfig,
    local_config as local_config,
    paper_config as paper_config,
    quick_config as quick_config,
    source_images as source_images,
)
from .costs import Cost as Cost, Setup as Setup, saving as saving
from .estimate import Estimate as Estimate, estimates as estimates, total_seconds as total_seconds
from .introduction import introduction as introduction
from .page import Section as Section, cell_text as cell_text, lettered as lettered
from .paper import FOOTNOTES as FOOTNOTES, SAYS as SAYS
from .plan import ALL as ALL, ITEMS as ITEMS, Item as Item, items_of as items_of
from .results import Results as Results
from .runner import RUNNING as RUNNING, Job as Job, Runner as Runner, Wanted as Wanted
from .sheets import Sheet as Sheet
