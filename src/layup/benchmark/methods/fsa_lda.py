"""First-session adaptation and linear discriminant analysis (Panos et al. 2023)."""

from __future__ import annotations

from layup.algebra import DiscriminantClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import Embedding

FSALDAMethod = closed_form(
    "fsa+lda",
    """Linear discriminant analysis of the final embedding, after a first session (Panos et al. 2023).

    With f(x), the final embedding of d values, μ_y, its mean over the n_y samples of class y, N samples in
    all, and the scatter within classes S_W = Σ f fᵀ − Σ_y n_y μ_y μ_yᵀ,

        Σ = S_W / N + λI        s_y(x) = μ_yᵀ Σ⁻¹ f(x) − ½ μ_yᵀ Σ⁻¹ μ_y + log(n_y / N),

    the most probable class if all classes were Gaussian with one covariance. S_W follows from the same sums
    that `layup` keeps, so earlier tasks are never read again.

    Keeps: d²/2 + C·d values of 8 bytes, one count per class, for C classes, and what the first session tuned
    (4 bytes per value). For d = 768, the matrix takes 2.8 MB.
    Costs: one pass through the network and d² operations per image; one solve (d³/3) before the first
    prediction after a task, if λ is 0 an eigendecomposition (9 d³); and the first session.
    Needs: nothing. Like its authors, layup by default tunes the network to the first task (a "first
    session"), but never on a stream (ocl).

    lam: λ, a number ≥ 0 that is added to every variance; 1 by default, and not searched. Or "oas", as for
        `randumb`.
    """,
    features=lambda method, setup: Embedding(),
    classifier=DiscriminantClassifier,
    without=["balance"],
    adapts=True,
    released="ranpac",
)
