"""The nearest mean of final embeddings, and of several layers."""

from __future__ import annotations

from layup.algebra import NearestMeanClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import Embedding, LastLayers

NMCMethod = closed_form(
    "nmc",
    """The nearest class mean of the network's final embedding: the simplest baseline.

    With f(x), the final embedding (of a transformer after the final norm), and μ_y, its mean over class y,

        cosine:     s_y(x) = f(x)ᵀ μ_y / (‖f(x)‖ ‖μ_y‖)        (SimpleCIL)
        euclidean:  s_y(x) = −‖f(x) − μ_y‖

    Keeps: C·d values of 8 bytes, for C classes and embeddings of d values, and one count per class.
    Costs: one pass through the network and d operations per image; C·d per prediction.
    Needs: nothing. The network can be tuned in a first session.

    metric: "cosine" (the default) or "euclidean".
    """,
    features=lambda method, setup: Embedding(),
    classifier=NearestMeanClassifier,
    released="ranpac",
)

LayNMCMethod = closed_form(
    "laynmc",
    """The nearest class mean of the concatenated last k layers: several layers without a Gram matrix.

    With Φ(x) = (φ_{L−k+1}(x), …, φ_L(x)), the outputs of the last k layers side by side, d values in all, and
    μ_y, its mean over class y,

        cosine:     s_y(x) = Φ(x)ᵀ μ_y / (‖Φ(x)‖ ‖μ_y‖)
        euclidean:  s_y(x) = −‖Φ(x) − μ_y‖

    Keeps: C·d values of 8 bytes, for C classes, and one count per class.
    Costs: one pass through the network and d operations per image; C·d per prediction.
    Needs: a network with at least k layers. It can be tuned in a first session.

    metric: "cosine" (the default) or "euclidean".
    k: how many of the last layers; the default depends on the network.
    """,
    features=lambda method, setup: LastLayers(method.k),
    classifier=NearestMeanClassifier,
    options={"k": None},
)
