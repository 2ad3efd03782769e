"""LayUP, the paper's method, and the paper's other ways to use layers with a ridge classifier."""

from __future__ import annotations

from layup.algebra import AutoClassifier, AverageClassifier, RidgeClassifier
from layup.benchmark.methods.closed_form import closed_form
from layup.features import LastLayers, OneLayer

LayUPMethod = closed_form(
    "layup",
    """The paper's method: ridge classification on the concatenated last k layers.

    With Φ(x) = (φ_{L−k+1}(x), …, φ_L(x)), the outputs of the last k layers side by side, d values in all,

        G = Σ Φ Φᵀ over all samples        c_y = Σ Φ over the samples of class y
        s_y(x) = Φ(x)ᵀ (G + λI)⁻¹ c_y      the class with the highest score is predicted.

    Keeps: d²/2 + C·d values of 8 bytes (4 in float32), and one count per class, for C classes and any number
    of images. For k = 6 layers of 768 values, G takes 87 MB.
    Costs: one pass through the network and d² operations per image. If λ is searched: 2 d³ to 9 d³ per task,
    less while there are fewer images than d. Otherwise: one solve (d³/3) before the first prediction after a
    task.
    Needs: a network with at least k layers. It can be tuned to the first task (a "first session").

    k: how many of the last layers; the default depends on the network.
    lam: λ. "search" takes the most accurate of 16 values, by four-fold cross-validation on the current task,
        added to the sums of all earlier tasks. "gcv" chooses it from the sums alone, by generalised
        cross-validation. Or a number ≥ 0. The default is "search"; on a stream (ocl), where λ cannot be
        searched, it is "gcv".
    balance: give classes of different sizes the same weight; off by default, as in the paper.
    precision: "float64", or "float32" with a plain LU solve, as in the authors' code. With float32, fewer
        samples than d and a small λ, predictions are decided by rounding errors.
    """,
    features=lambda method, setup: LastLayers(method.k),
    classifier=RidgeClassifier,
    options={"k": None},
)

LayUPAutoMethod = closed_form(
    "layup-auto",
    """What `layup learn` uses by default: the sums of `layup`, and all choices made from them alone.

    With G and c_y as in `layup`, μ_y = c_y / n_y, the scatter within classes S_W = G − Σ n_y μ_y μ_yᵀ, and a
    diagonal D that brings the layers to the same scale (the deepest counts more with few samples),

        R = (S_W + λD)⁻¹        A = [μ_yᵀ R μ_z]        b(x) = [μ_yᵀ R Φ(x)]        n̄: samples per class
        ridge:   (I / n̄ + A)⁻¹ b(x)                            as `layup`, balanced, with λD for λI
        cosine:  (Φ(x) − m)ᵀ R (μ_y − m) / ‖μ_y − m‖_R           with the mean m of all class means

    and the score is the sum of the two, each divided by its mean margin between classes. λ and D follow from
    the sums. λ is multiplied by a strength, which is 1 unless a task clearly says otherwise.

    Keeps: the same as `layup`, d²/2 + C·d values of 8 bytes, and one count per class, for C classes.
    Costs: one pass through the network and d² operations per image; one solve (d³/3) before the first
    prediction after a task, and about three per task to judge the strength.
    Needs: a network with at least k layers. It can be tuned in a first session.

    k: how many of the last layers; the default depends on the network.
    strength: what λ is multiplied by: "search" (the default), by leave-one-out on the current task, if 200
        images or more can be judged, and only if it is clearly better; or a number > 0.
    """,
    features=lambda method, setup: LastLayers(method.k),
    classifier=AutoClassifier,
    options={"k": None, "strength": "search"},
)

RidgeMethod = closed_form(
    "ridge",
    """Ridge classification on one layer alone, by default the last: `layup` with k = 1, the paper's ablation.

    With φ(x), the output of that layer (in a transformer, a block; the last one before the final norm),

        G = Σ φ φᵀ        c_y = Σ φ over class y        s_y(x) = φ(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: d²/2 + C·d values of 8 bytes (4 in float32) for a layer of width d, and one count per class,
    for C classes. For d = 768, G takes 2.8 MB.
    Costs: one pass through the network and d² operations per image. If λ is searched: 2 d³ to 9 d³ per task,
    less while there are fewer images than d. Otherwise: one solve (d³/3) before the first prediction after a
    task.
    Needs: nothing. The network can be tuned in a first session.

    lam: λ, "search", "gcv" or a number ≥ 0, as for `layup`.
    balance: give classes of different sizes the same weight; off by default.
    precision: "float64" or "float32", as for `layup`.
    layer: which layer, counted from the end: 1 is the last.
    """,
    features=lambda method, setup: OneLayer(method.layer),
    classifier=RidgeClassifier,
    options={"layer": 1},
)

LayUPAverageMethod = closed_form(
    "layup-average",
    """The other way to use several layers (Figure 3 of the paper): a classifier for each, and their average.

    With φ_l(x), the output of layer l of the last k,

        G_l = Σ φ_l φ_lᵀ        c_{l,y} = Σ φ_l over class y
        s_y(x) = (1/k) Σ_l φ_l(x)ᵀ (G_l + λ_l I)⁻¹ c_{l,y}

    where every layer has its own λ. Unlike `layup`, it does not know how the layers vary together. With k = 1
    it is `ridge`.

    Keeps: as `layup` of the same k, d²/2 + C·d values of 8 bytes for layers of d values in all, since
    any of `layup`'s classifiers follows from the same sums; its own k blocks are Σ d_l²/2 of these.
    Costs: one pass through the network and d² operations per image; if λ is searched, 2 d_l³ to 9 d_l³ per
    task and layer; otherwise one solve per layer (d_l³/3) before the first prediction.
    Needs: a network with at least k layers. It can be tuned in a first session.

    k: how many of the last layers; the default depends on the network.
    lam: "search", "gcv" or a number ≥ 0, as for `layup`, but for each layer separately.
    balance: give classes of different sizes the same weight; off by default.
    precision: "float64" or "float32", as for `layup`.
    """,
    features=lambda method, setup: LastLayers(method.k),
    classifier=AverageClassifier,
    options={"k": None},
)
