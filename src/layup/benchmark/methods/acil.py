"""ACIL (Zhuang et al. 2022) and GACL (2024): ridge classification on a random projection, with a fixed λ."""

from __future__ import annotations

from layup.algebra import RidgeClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import Embedding, Projected

WIDTH = 5000
LAM = 100.0

ACILMethod = closed_form(
    "acil",
    """Ridge classification on a random projection, with a fixed λ (ACIL, later GACL; Zhuang et al. 2022).

    With f(x), the final embedding of d values, and a matrix W of d × M values, drawn once, uniformly between
    −1/√d and 1/√d, and never changed,

        h(x) = max(0, f(x) W)        G = Σ h hᵀ over all samples        c_y = Σ h over class y
        s_y(x) = h(x)ᵀ (G + λI)⁻¹ c_y.

    The authors follow (G + λI)⁻¹ from batch to batch by recursive least squares, which gives the same
    weights. GACL (Zhuang et al. 2024) allows classes to return in later tasks, as the sums here do anyway: it
    is the same method, and `gacl` another name for it. Unlike `ranpac`, λ is not searched, and the network is
    not tuned unless it is asked for.

    Keeps: M²/2 + C·M values of 8 bytes (4 in float32), and one count per class, for C classes. For M = 5,000,
    G takes 102 MB. It is a sum over samples: models merge and forget exactly. W is drawn again from the run's
    seed, and neither stored nor counted; in memory it takes another 8·d·M bytes.
    Costs: one pass through the network and d·M + M² operations per image; one solve (M³/3) before the first
    prediction after a task. On a stream, batches of a few images cost 2 M² operations per image instead.
    Needs: nothing. The network can be tuned in a first session; its authors train one from scratch on half
    of the classes (ACIL), or take a pre-trained one as it is (GACL).

    width: M, how many values the projection has; 5,000 as in the released code of GACL, whose network is
        pre-trained. That of ACIL has 8,192, and λ = 0.1, which ruins predictions with about as many images.
    lam: λ, which its authors call γ, 100 by default: a number ≥ 0, "gcv" or "search", as for `layup`.
    precision: "float64", as in the authors' code, or "float32", as for `layup`.
    """,
    features=lambda method, setup: Projected(Embedding(), method.width, setup.seed, drawn="uniform"),
    classifier=RidgeClassifier,
    options={"width": WIDTH, "lam": LAM},
    without=("balance",),
)
