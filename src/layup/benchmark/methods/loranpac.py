"""LoRanPAC (Peng et al. 2025): least squares on a random projection, without its weakest directions."""

from __future__ import annotations

from layup.algebra import TruncatedClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import Embedding, Projected

WIDTH = 10_000

LoRanPACMethod = closed_form(
    "loranpac",
    """Least squares on the strongest directions of a random projection (LoRanPAC; Peng et al. 2025).

    With f(x), the final embedding of d values, a matrix W of d × M values, drawn once from N(0, 1), and the
    eigenvalues of G in descending order, G = V diag(s) Vᵀ,

        h(x) = max(0, f(x) W)        G = Σ h hᵀ over all N samples        c_y = Σ h over class y
        s_y(x) = h(x)ᵀ V_r diag(1 / s_1, …, 1 / s_r) V_rᵀ c_y        r = ¾ · min(N, M), rounded.

    What stabilises the solution is that the weakest quarter of all directions is left out, and not a λ.

    Keeps: M²/2 + C·M values of 8 bytes, and one count per class, for C classes. For M = 10,000, G takes
    405 MB. G is the exact sum over all samples: models merge and forget exactly. The authors keep the r
    strongest directions instead, r·M values, and truncate them again with each task, so that what a later
    task would have strengthened is lost; that allows M = 100,000, where G would take 40 GB.
    Costs: one pass through the network and d·M + M² operations per image; an eigendecomposition before the
    first prediction after a task, 9 M³ operations, or 3 M·N² + 9 N³ while there are fewer images than M.
    Needs: nothing. The network can be tuned in a first session.

    width: M, how many values the projection has.
    truncate: the share of directions that is left out, from 0 to below 1; a quarter by default, as in the
        authors' code. They also keep no more than 10,000 directions, which M = 10,000 never has.
    """,
    features=lambda method, setup: Projected(Embedding(), method.width, setup.seed),
    classifier=TruncatedClassifier,
    options={"width": WIDTH},
    released="ranpac",
)
