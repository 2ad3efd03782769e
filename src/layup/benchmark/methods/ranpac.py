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

    Keeps: M²/2 + C·M values of 8 bytes (4 in float32), a count for each of C classes, and what a first
    session tuned (4 bytes per value). For M = 10,000, G takes 405 MB, and learning or solving several times
    that for a moment. W follows from the run's seed, so it is neither stored nor counted; in memory it takes
    8·d·M bytes more.
    Costs: one pass of the network and d·M + M² operations per image; where λ is searched, with n four
    fifths of a task's images, one banded form of an n × n matrix (2 n³, and 2 M·n² around it), or of G's
    size where n > M; one solve (M³/3) before the first prediction after a task.
    Needs: nothing. Its authors tune the network in a first session, which is the default here; never on a
    stream.

    width: M, how many values the projection has.
    lam: λ. "search": of 17 values from 1e-8 to 1e8 the one of least squared error on a fifth of the current
        task, fitted to the other four fifths (without earlier tasks); "gcv": from the sums alone; or a number
        ≥ 0. By default "search", and 1 on a stream, which cannot be searched.
    precision: "float64", or "float32" with a plain LU solve, to do as the authors' code does. With fewer
        samples than M and a small λ, rounding decides its predictions.
    """,
    features=lambda method, setup: Projected(Embedding(), method.width, setup.seed),
    classifier=HeldOutRidgeClassifier,
    options={"width": WIDTH},
    adapts=True,
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
    session tuned. W, which follows from the run's seed and is neither stored nor counted, takes 8·d·M bytes
    of memory: 370 MB for M = 10,000 and k = 6 layers of 768 values.
    Costs: one pass of the network and d·M + M² operations per image; λ and the solve as of `ranpac`.
    Needs: a network with k layers. By default it is tuned in a first session; never on a stream.

    width, lam, precision: as of `ranpac`.
    k: how many of the last layers; by default the network's own number.
    """,
    features=lambda method, setup: Projected(LastLayers(method.k), method.width, setup.seed),
    classifier=HeldOutRidgeClassifier,
    options={"width": WIDTH, "k": None},
    adapts=True,
    stream_lam=1.0,
)
