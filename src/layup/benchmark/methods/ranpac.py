"""RanPAC (McDonnell et al. 2023): ridge classification on random projections, also of LayUP's layers."""

from __future__ import annotations

from layup.algebra import HeldOutRidgeClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import Embedding, LastLayers, Projected

WIDTH = 10_000

RanPACMethod = closed_form(
    "ranpac",
    """Ridge classification on a random projection of the final embedding (McDonnell et al. 2023).

    With f(x), the final embedding of d values (of a transformer after the final norm), and a matrix W of
    d × M values, drawn once from N(0, 1) and never changed,

        h(x) = max(0, f(x) W)        G = Σ h hᵀ over all samples        c_y = Σ h over class y
        s_y(x) = h(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: M²/2 + C·M values of 8 bytes (4 in float32), one count per class, for C classes, and the weights
    that a first session tuned (4 bytes per value). For M = 10,000, G takes 405 MB; learning and solving need
    several times that for a moment. W is drawn again from the run's seed, so it is neither stored nor
    counted; in memory it takes another 8·d·M bytes.
    Costs: one pass through the network and d·M + M² operations per image. If λ is searched: reducing an n × n
    matrix to banded form (2 n³, and 2 M·n² around it), where n is four fifths of the task's images; if n > M,
    the matrix has the size of G. One solve (M³/3) before the first prediction after a task.
    Needs: nothing. Like its authors, layup by default tunes the network to the first task (a "first
    session"), but never on a stream (ocl).

    width: M, how many values the projection has.
    lam: λ. "search" takes, of 17 values from 1e-8 to 1e8, the one with the least squared error on a fifth of
        the current task, after fitting the other four fifths (without earlier tasks). "gcv" chooses it from
        the sums alone, by generalised cross-validation. Or a number ≥ 0. The default is "search"; on a stream
        (ocl), where λ cannot be searched, it is 1.
    precision: "float64", or "float32" with a plain LU solve, as in the authors' code. With float32, fewer
        samples than M and a small λ, predictions are decided by rounding errors.
    """,
    features=lambda method, setup: Projected(Embedding(), method.width, setup.seed),
    classifier=HeldOutRidgeClassifier,
    options={"width": WIDTH},
    adapts=True,
    released="ranpac",
    stream_lam=1.0,
)

RanPACLayUPMethod = closed_form(
    "ranpac+layup",
    """RanPAC of several layers (Section 5.7 of the paper): the last k instead of the final embedding.

    With Φ(x) = (φ_{L−k+1}(x), …, φ_L(x)), the outputs of the last k layers side by side, d values in all, and
    a matrix W of d × M values, drawn once from N(0, 1) and never changed,

        h(x) = max(0, Φ(x) W)        G = Σ h hᵀ over all samples        c_y = Σ h over class y
        s_y(x) = h(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: as `ranpac`, M²/2 + C·M values of 8 bytes (4 in float32) for any k, C counts, and what a first
    session tuned. W is drawn again from the run's seed, and neither stored nor counted; it takes 8·d·M bytes
    of memory: 370 MB for M = 10,000 and k = 6 layers of 768 values.
    Costs: one pass through the network and d·M + M² operations per image; λ and the solve as for `ranpac`.
    Needs: a network with at least k layers. By default it is tuned in a first session, but never on a stream.

    width, lam, precision: as for `ranpac`.
    k: how many of the last layers; the default depends on the network.
    """,
    features=lambda method, setup: Projected(LastLayers(method.k), method.width, setup.seed),
    classifier=HeldOutRidgeClassifier,
    options={"width": WIDTH, "k": None},
    adapts=True,
    released="ranpac",
    stream_lam=1.0,
)
