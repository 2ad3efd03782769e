"""ADAM, also called APER (Zhou et al. 2023): prototypes of the network before and after a first session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from layup.adapters import AdaptedBackbone
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.models import ModelMethod
from layup.errors import InputError
from layup.features import Joined
from layup.model import NMC, ImageModel


class TwoNetworks(ImageModel):
    """Reads each image twice: with the network as it came, and as the first session has tuned it."""

    def _extractor(self) -> Joined:
        tuned = self.backbone_
        frozen = tuned.base if isinstance(tuned, AdaptedBackbone) else tuned  # not tuned yet
        return Joined({"frozen": self._reader(frozen), "tuned": self._reader(tuned)})


class Adam(TwoNetworks, NMC):
    """The nearest mean, by cosine, of both final embeddings."""

    method = "adam"


@dataclass(frozen=True)
class AdamMethod(ModelMethod):
    """The nearest mean of the network before and after a first session (ADAM, later APER; Zhou et al. 2023).

    With f(x), the final embedding of the network as it came, and f*(x), that of the network which the first
    session has tuned,

        Φ(x) = (f(x), f*(x))        μ_y, its mean over class y        s_y(x) = Φ(x)ᵀ μ_y / (‖Φ(x)‖ ‖μ_y‖).

    Keeps: 2·C·d values of 8 bytes, for C classes and embeddings of d values, a count for each class, and what
    the first session tuned (4 bytes a value). The two networks share all weights that were not tuned; with
    the adapter "full" that is none, and the whole network is kept twice.
    Costs: two passes of the network and 2·d operations an image; 2·C·d for an answer; and the first session.
    Needs: a first session, with whatever adapter. Without a tuned network it would be `nmc`: so there is no
    ADAM on a stream.

    It has no options.
    """

    name = "adam"
    adapts = True
    settings = ("cil", "dil")
    model = Adam

    def settled(self, setup: Setup) -> Self:
        """Unchanged, if there is a first session."""
        require_session(self.name, "nmc", setup)
        return self


def require_session(method: str, without: str, setup: Setup) -> None:
    """Refuse a setup that has no first session: there would be but one network."""
    if setup.session is None:
        stream = ", which a stream does not allow" if setup.setting == "ocl" else ""
        raise InputError(
            f"The method {method!r} reads a network before and after a first session{stream}, and there is "
            f"none here: without a tuned network it would be {without!r}. Let the first task adapt the "
            f"network, in the setting 'cil' or 'dil', or use {without!r}."
        )
