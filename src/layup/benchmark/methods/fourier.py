"""Linear discriminants of random Fourier features: RanDumb and KLDA."""

from __future__ import annotations

from typing import Any

from layup.algebra import DiscriminantClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.benchmark.methods.learner import Setup
from layup.features import Embedding, FeatureSpec, Fourier, Normalised


def _fourier(method: Any, setup: Setup) -> FeatureSpec:
    """Random Fourier features of the scaled embedding; of width 0, the embedding as it is."""
    if not method.width:
        return Embedding()
    return Fourier(Normalised(Embedding()), method.width, method.gamma, setup.seed)


RanDumbMethod = closed_form(
    "randumb",
    """The nearest class mean by Mahalanobis distance, in random Fourier features (Prabhu et al. 2024).

    With u(x) = f(x) / ‖f(x)‖, the final embedding scaled to length 1, frequencies Ω of d × M values from
    N(0, 2γ) and phases b from U(0, 2π), drawn once and never changed, μ_y, the mean of z over class y, and S,
    the covariance of z within classes over all N samples,

        z(x) = √(2/M) cos(u(x) Ω + b)              z(x)ᵀ z(x') ≈ exp(−γ ‖u(x) − u(x')‖²)
        Σ = (1 − ρ) S + ρ (tr S / M) I             ρ = (tr S² + tr² S) / ((N + 1) (tr S² − tr² S / M)) ≤ 1
        s_y(x) = −(z(x) − μ_y)ᵀ Σ⁻¹ (z(x) − μ_y).

    ρ is the "oracle approximating shrinkage", which needs no choice and no search.

    Keeps: M²/2 + C·M values of 8 bytes, one count per class, for C classes. For M = 10,000 that is 405 MB;
    learning and solving need several times that for a moment. Ω and b are drawn again from the run's seed, so
    they are neither stored nor counted. It is all sums: models merge, and images are forgotten, exactly.
    Costs: one pass through the network and d·M + M² operations per image; one solve (M³/3) before the first
    prediction after a task.
    Needs: nothing. The network can be tuned in a first session.

    width: M. Its authors use 25,000, of pixels; the default is 10,000, as for `ranpac`. With 0 it is the
        embedding as it is, without scaling and random features: so its authors use pre-trained networks.
    gamma: γ; 0.1 by default. Its authors take scikit-learn's rule "scale", 1 / (d · variance of all values),
        which looks at all data before the first image is learned. For embeddings of length 1 it is about 1,
        whatever the data: good for pixels, but for embeddings 0.1 was better on training images held out.
    lam: "oas" (the default), or a number ≥ 0 that is added to every variance instead.
    balance: true by default: classes count alike, however many images they have. With false, log(n_y / N) is
        added to −½ of the distance. Its authors' code does so, and shrinks the covariance of each class by
        itself; the paper shrinks one for all, as here.
    """,
    features=_fourier,
    classifier=DiscriminantClassifier,
    options={"width": 10_000, "gamma": 0.1, "lam": "oas", "balance": True},
)

KLDAMethod = closed_form(
    "klda",
    """Linear discriminant analysis of an RBF kernel, by random Fourier features (KLDA, Momeni et al. 2025).

    With u(x) = f(x) / ‖f(x)‖, the final embedding scaled to length 1, frequencies Ω of d × M values from
    N(0, 2γ) and phases b from U(0, 2π), drawn once and never changed, μ_y, the mean of z over class y, and S,
    the covariance of z within classes over all samples,

        z(x) = √(2/M) cos(u(x) Ω + b)              z(x)ᵀ z(x') ≈ exp(−γ ‖u(x) − u(x')‖²)
        s_y(x) = −(z(x) − μ_y)ᵀ (S + λI)⁻¹ (z(x) − μ_y).

    KLDA-E, an ensemble of several KLDA with other seeds, is not here.

    Keeps: M²/2 + C·M values of 8 bytes, one count per class, for C classes: 102 MB for M = 5,000. Ω and b are
    drawn again from the run's seed, so they are neither stored nor counted. It is all sums: models merge, and
    images are forgotten, exactly.
    Costs: one pass through the network and d·M + M² operations per image; one solve (M³/3) before the first
    prediction after a task; if λ is 0, an eigendecomposition (9 M³).
    Needs: nothing. The network can be tuned in a first session.

    width: M; 5,000 by default, as its authors have it.
    gamma: γ; 0.1 by default, as for `randumb`. Its authors do not scale embeddings, and choose γ for each
        network: for their language models, from 5e-6 to 5e-2.
    lam: λ, a number ≥ 0 that is added to every variance, 1e-6 by default, or "oas", as for `randumb`. Its
        authors take the pseudo-inverse of S in float32, where rounding does what λ does here. The variances
        of z add up to at most 1, so λ does not depend on the scale of the network's embeddings.
    balance: as for `randumb`; true by default, as in its authors' code.
    """,
    features=_fourier,
    classifier=DiscriminantClassifier,
    options={"width": 5000, "gamma": 0.1, "lam": 1e-6, "balance": True},
)
