"""F-OAL (Zhuang et al. 2024): ridge classification on the mean of all layers, made for streams."""

from __future__ import annotations

from layup.algebra import RidgeClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import MeanOfLayers, Projected

WIDTH = 1000
LAM = 1.0

FOALMethod = closed_form(
    "f-oal",
    """Ridge classification on a random projection of the mean of all layers (F-OAL; Zhuang et al. 2024).

    With φ̄(x), the mean of the outputs of all L layers (in a transformer, the class tokens of all blocks),
    normalised to mean 0 and variance 1, and a matrix W of d × M values, drawn once, uniformly between −1/√d
    and 1/√d,

        h(x) = 1 / (1 + exp(−φ̄(x) W))        G = Σ h hᵀ over all samples        c_y = Σ h over class y
        s_y(x) = h(x)ᵀ (G + λI)⁻¹ c_y.

    The authors follow (G + λI)⁻¹ from batch to batch by recursive least squares, which gives the same
    weights. They normalise by the final norm of the network, whose learned scale and shift are left out here.

    Keeps: M²/2 + C·M values of 8 bytes (4 in float32), and one count per class, for C classes: 4 MB for
    M = 1,000. G is a sum over samples: models merge and forget exactly. W is drawn again from the run's seed,
    and neither stored nor counted.
    Costs: one pass through the network and d·M + M² operations per image; one solve (M³/3) before the first
    prediction after a task. On a stream, batches of a few images cost 2 M² operations per image instead.
    Needs: a network whose layers all have the same width, such as a plain vision transformer. It can be tuned
    in a first session.

    width: M, how many values the projection has.
    lam: λ, which its authors call γ: a number ≥ 0, "gcv" or "search", as for `layup`.
    precision: "float64", as in the authors' code, or "float32", as for `layup`.
    """,
    features=lambda method, setup: Projected(MeanOfLayers(), method.width, setup.seed, "sigmoid", "uniform"),
    classifier=RidgeClassifier,
    options={"width": WIDTH, "lam": LAM},
    without=("balance",),
)
