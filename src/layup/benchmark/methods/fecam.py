"""FeCAM (Goswami et al. 2023): the nearest class mean, with a covariance per class."""

from __future__ import annotations

from layup.algebra import ClassCovariancesClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import Embedding, Normalised

FeCAMMethod = closed_form(
    "fecam",
    """The nearest class mean by Mahalanobis distance, with a covariance per class (Goswami et al. 2023).

    With u(x), the final embedding of d values scaled to length 1, the mean μ_y and the covariance S_y of each
    class, V₁ and V₂ the means of the values of S_y on and off its diagonal, and J a matrix of ones,

        Σ_y = S_y + γ₁ V₁ I + γ₂ V₂ (J − I)        R_y = D^(−1/2) Σ_y D^(−1/2), with D the diagonal of Σ_y,
        s_y(x) = −(u(x) − μ_y)ᵀ R_y⁻¹ (u(x) − μ_y).

    R_y are correlations, so that distances from classes that vary more or less can be compared.

    Keeps: C·(d²/2 + d) values of 8 bytes, one count per class, for C classes: 474 MB for d = 768 and C = 200.
    Predicting takes another 8·C·d² bytes. It is all sums, one set per class: models merge, and images are
    forgotten, exactly, also a whole class without its images.
    Costs: one pass through the network and d² operations per image; one factorisation (d³/3) per class before
    the first prediction after a task; C·d² per prediction.
    Needs: nothing. The network can be tuned in a first session.

    gamma1, gamma2: γ₁ > 0 and γ₂, from 0 to γ₁, how much covariances are shrunk. By default 1 and 0, as its
        authors have them for vision transformers on CIFAR-100.
    power: Tukey's transformation, which comes first: each value v becomes sign(v) |v|ᵖ. 1 by default, which
        changes nothing, as its authors have it for vision transformers; for embeddings without negative
        values (convolutional networks) they take 0.5.
    """,
    features=lambda method, setup: Normalised(Embedding(), method.power),
    classifier=ClassCovariancesClassifier,
    options={"power": 1.0},
)
