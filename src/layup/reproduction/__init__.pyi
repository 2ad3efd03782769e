from . import analysis as analysis, claims as claims, costs as costs, page as page
from .config import (
    World as World,
    local_world as local_world,
    paper_world as paper_world,
    quick_world as quick_world,
    source_images as source_images,
)
from .costs import Cost as Cost, Setup as Setup, saving as saving
from .estimate import Estimate as Estimate, estimates as estimates, total_seconds as total_seconds
from .introduction import introduction as introduction
from .page import Section as Section, cell_text as cell_text, lettered as lettered
from .paper import FOOTNOTES as FOOTNOTES, SAYS as SAYS
from .plan import ALL as ALL, ITEMS as ITEMS, Item as Item, items_of as items_of
from .results import Study as Study
from .runner import RUNNING as RUNNING, Job as Job, Laboratory as Laboratory, Wanted as Wanted
from .sheets import Sheet as Sheet
