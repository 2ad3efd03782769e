"""Teach a frozen pre-trained model new classes for ever: no forgetting, no training, no stored images.

>>> import layup
>>> model = layup.LayUP("vit-nano", lam="gcv")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from layup.backbones import Backbone, Preprocessing, load_backbone
    from layup.cache import FeatureCache, NoCache
    from layup.classifier import NearestMeanClassifier, RidgeClassifier
    from layup.errors import LayupError
    from layup.first_session import FirstSession
    from layup.model import NMC, LayNMC, LayUP
    from layup.statistics import GramStatistics

__version__ = "0.1.0"

# Loaded on first use: `layup.storage` must work, and `layup --help` answer, without waiting for PyTorch.
_HOMES = {
    "Backbone": "backbones",
    "FeatureCache": "cache",
    "FirstSession": "first_session",
    "GramStatistics": "statistics",
    "LayNMC": "model",
    "LayUP": "model",
    "LayupError": "errors",
    "NMC": "model",
    "NearestMeanClassifier": "classifier",
    "NoCache": "cache",
    "Preprocessing": "backbones",
    "RidgeClassifier": "classifier",
    "load_backbone": "backbones",
}

__all__ = [
    "NMC",
    "Backbone",
    "FeatureCache",
    "FirstSession",
    "GramStatistics",
    "LayNMC",
    "LayUP",
    "LayupError",
    "NearestMeanClassifier",
    "NoCache",
    "Preprocessing",
    "RidgeClassifier",
    "load_backbone",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'layup' has no attribute {name!r}")
    return getattr(import_module(f"layup.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
