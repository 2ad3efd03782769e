from . import analysis as analysis, costs as costs
from .config import (
    Column as Column,
    ReproductionConfig as ReproductionConfig,
    local_config as local_config,
    paper_config as paper_config,
    quick_config as quick_config,
)
from .costs import Cost as Cost, Setup as Setup, saving as saving
from .estimate import forecast as forecast
from .page import Page as Page, Section as Section, reproduce as reproduce
from .plan import ALL as ALL, ITEMS as ITEMS, Item as Item
from .shown import Cell as Cell, Picture as Picture, Shown as Shown
