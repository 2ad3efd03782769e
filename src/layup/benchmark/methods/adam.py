"""ADAM, also called APER (Zhou et al. 2023): the network before and after a first session, side by side."""

from __future__ import annotations

from layup.algebra import NearestMeanClassifier, RidgeClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import Embedding, FrozenAndTuned, LastLayers

AdamMethod = closed_form(
    "adam",
    """The nearest mean of the network before and after a first session (ADAM, later APER; Zhou et al. 2023).

    With f(x), the final embedding of the original network, and f*(x), that of the network tuned in the first
    session,

        Φ(x) = (f(x), f*(x))        μ_y, its mean over class y        s_y(x) = Φ(x)ᵀ μ_y / (‖Φ(x)‖ ‖μ_y‖).

    Keeps: 2·C·d values of 8 bytes, for C classes and embeddings of d values, one count per class, and what
    the first session tuned (4 bytes per value). The two networks share all weights that were not tuned; with
    the adapter "full" they share none, and the whole network is kept twice.
    Costs: two passes through the network and 2·d operations per image; 2·C·d per prediction; the first
    session.
    Needs: a first session, with any adapter. Without a tuned network it would be `nmc`, so it cannot learn a
    stream.

    It has no options. `aper` is another name for this method.
    """,
    features=lambda method, setup: FrozenAndTuned(Embedding()),
    classifier=NearestMeanClassifier,
    without=("metric",),
    adapts=True,
    released="ranpac",
    settings=("cil", "dil"),
    needs_session=True,
    untuned="nmc",
)

AdamLayUPMethod = closed_form(
    "adam+layup",
    """LayUP of the network before and after a first session (Section 5.7 of the paper).

    With Φ(x), the outputs of the last k layers of the original network and of the network tuned in the first
    session, all side by side, D values in all (twice those of `layup`),

        G = Σ Φ Φᵀ over all samples        c_y = Σ Φ over class y        s_y(x) = Φ(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: D²/2 + C·D values of 8 bytes, four times the Gram matrix of `layup`, one count per class, for C
    classes, and what the first session tuned (4 bytes per value). For k = 6 layers of 768 values, G takes 344
    MB.
    Costs: two passes through the network and D² operations per image; if λ is searched, 2 D³ to 9 D³ per
    task; otherwise one solve (D³/3) before the first prediction after a task; and the first session.
    Needs: a network with at least k layers, and a first session, with any adapter. Without a tuned network it
    would be `layup`, so it cannot learn a stream.

    k: how many of the last layers of each network; the default depends on the network.
    lam: λ, "search", "gcv" or a number ≥ 0, as for `layup`.
    balance: give classes of different sizes the same weight; off by default.
    precision: "float64" or "float32", as for `layup`.
    """,
    features=lambda method, setup: FrozenAndTuned(LastLayers(method.k)),
    classifier=RidgeClassifier,
    options={"k": None},
    adapts=True,
    released="ranpac",
    settings=("cil", "dil"),
    needs_session=True,
    untuned="layup",
)
