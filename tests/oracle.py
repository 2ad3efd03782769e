"""Slow, obvious twins of the library's formulas: the whole data at hand, one loop a step, no layup code.

Where there may be fewer samples than dimensions, the singular values of the features themselves are used:
G squares them, so this is the better conditioned way, and an independent one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

Array = np.ndarray[Any, np.dtype[Any]]

# Written out, as the paper's appendix does.
SIXTEEN = (
    *(10**-8, 10**-4, 10**-3.5, 10**-3, 10**-2.5, 10**-2, 10**-1.5, 10**-1),
    *(10**-0.5, 10**0, 10**0.5, 10**1, 10**1.5, 10**2, 10**2.5, 10**3),
)


def blobs(
    rng: np.random.Generator, counts: list[int], dim: int, spread: float = 1.0, seed_of_means: int = 0
) -> tuple[Array, Array]:
    """Samples of Gaussian classes "c00", "c01", …, of which there are so many, in random order."""
    means = np.random.default_rng(seed_of_means).normal(size=(len(counts), dim))
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    x = means[y] + spread * rng.normal(size=(len(y), dim))
    return x, np.array([f"c{i:02d}" for i in y], dtype="<U3")


def sums(x: Array, y: Array) -> tuple[Array, dict[Any, Array], dict[Any, int]]:
    """G, c and n, one sample at a time."""
    gram = np.zeros((x.shape[1], x.shape[1]))
    prototypes: dict[Any, Array] = {}
    counts: dict[Any, int] = {}
    for phi, label in zip(np.asarray(x, dtype=np.float64), y.tolist(), strict=True):
        gram = gram + np.outer(phi, phi)
        prototypes[label] = prototypes.get(label, 0.0) + phi
        counts[label] = counts.get(label, 0) + 1
    return gram, prototypes, counts


def grams(x: Array, y: Array) -> dict[Any, Array]:
    """G of each class, one sample at a time."""
    found: dict[Any, Array] = {}
    for phi, label in zip(x, y.tolist(), strict=True):
        found[label] = found.get(label, 0.0) + np.outer(phi, phi)
    return found


def held(learned: Any) -> dict[str, Array]:
    """All that sums hold, by name: counts, prototypes and, if they have them, G or moments."""
    names = "counts", "prototypes", "gram", "moments"
    return {name: getattr(learned, name) for name in names if hasattr(learned, name)}


def one_hot(y: Array) -> tuple[list[Any], Array]:
    """The sorted labels, and a row for each sample with a single one."""
    labels = sorted(set(y.tolist()))
    targets = np.zeros((len(y), len(labels)))
    for i, label in enumerate(y.tolist()):
        targets[i, labels.index(label)] = 1.0
    return labels, targets


def balanced_sums(x: Array, y: Array) -> tuple[Array, Array]:
    """G_b = S_W + n̄ Σ μ μᵀ and c_b = n̄ μ, from the definition of each part."""
    labels = sorted(set(y.tolist()))
    mean_count = len(y) / len(labels)
    gram = np.zeros((x.shape[1], x.shape[1]))
    prototypes = []
    for label in labels:
        own = x[y == label]
        mean = own.mean(axis=0)
        for phi in own:
            gram += np.outer(phi - mean, phi - mean)
        gram += mean_count * np.outer(mean, mean)
        prototypes.append(mean_count * mean)
    return gram, np.array(prototypes)


def balanced_data(x: Array, y: Array) -> tuple[Array, Array]:
    """Rows and targets whose plain sums are the balanced ones: each class mean is scaled by √(n̄/n)."""
    labels, targets = one_hot(y)
    x, targets = x.copy(), targets.copy()
    for label in labels:
        own = y == label
        factor = np.sqrt(len(y) / len(labels) / own.sum())
        mean = x[own].mean(axis=0)
        x[own] = (x[own] - mean) + factor * mean
        targets[own] *= factor
    return x, targets


def ridge(x: Array, targets: Array, lam: float) -> Array:
    """W = (XᵀX + λI)⁻¹ XᵀY, the minimum-norm solution for λ = 0."""
    if lam == 0:
        return np.linalg.lstsq(x, targets, rcond=None)[0]
    return ridges(x, targets, [lam])[0]


def ridges(x: Array, targets: Array, lams: Sequence[float]) -> list[Array]:
    """W for each λ > 0."""
    n, d = x.shape
    if n >= d:
        return [np.linalg.solve(x.T @ x + lam * np.eye(d), x.T @ targets) for lam in lams]
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    return [vt.T @ np.diag(s / (s**2 + lam)) @ u.T @ targets for lam in lams]


def classifier(x: Array, y: Array, lam: float, balance: bool = False) -> tuple[list[Any], Array]:
    """The joint ridge classifier on all data: its labels, and W with a column for each."""
    labels, targets = one_hot(y)
    if balance:
        x, targets = balanced_data(x, y)
    return labels, ridge(x, targets, lam)


def predict(labels: list[Any], weights: Array, x: Array) -> list[Any]:
    """The label of the highest score of each sample."""
    return [labels[int(np.argmax(phi @ weights))] for phi in x]


def folds(y: Array) -> list[Array]:
    """The rows of each of four stratified folds."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")  # the paper does not mind
        return [test for _, test in StratifiedKFold(n_splits=4, shuffle=False).split(y, y)]


def least_lead(scores: Array) -> float:
    """How far the highest score of a row is above the second, in parts of its largest; the least of all rows.

    Without a second, ∞.
    """
    if scores.shape[1] < 2:
        return np.inf
    ordered, size = np.sort(scores, axis=1), np.abs(scores).max(axis=1)
    return float(((ordered[:, -1] - ordered[:, -2]) / np.where(size == 0, 1, size)).min())


def search(
    history: tuple[Array, Array] | None,
    x: Array,
    y: Array,
    balance: bool = False,
    grid: Sequence[float] = SIXTEEN,
) -> dict[float, Fraction]:
    """The mean accuracy over folds of every λ: the paper's appendix, read aloud."""
    return search_and_lead(history, x, y, balance, grid)[0]


def search_and_lead(
    history: tuple[Array, Array] | None, x: Array, y: Array, balance: bool, grid: Sequence[float]
) -> tuple[dict[float, Fraction], float]:
    """The search, and the smallest lead of all its predictions: it shows whether rounding could turn one."""
    accuracies, least = dict.fromkeys(grid, Fraction(0)), np.inf
    for left_out in folds(y):
        train_x, train_y = np.delete(x, left_out, axis=0), np.delete(y, left_out)
        if history is not None:
            train_x = np.concatenate([history[0], train_x])
            train_y = np.concatenate([history[1], train_y])
        labels, targets = one_hot(train_y)
        if balance:
            train_x, targets = balanced_data(train_x, train_y)
        for lam, weights in zip(grid, ridges(train_x, targets, grid), strict=True):
            predictions = predict(labels, weights, x[left_out])
            hits = sum(
                answer == truth for answer, truth in zip(predictions, y[left_out].tolist(), strict=True)
            )
            accuracies[lam] += Fraction(hits, len(left_out)) / 4
            least = min(least, least_lead(x[left_out] @ weights))
    return accuracies, least


def wide_search(
    history: tuple[Array, Array] | None, x: Array, y: Array, balance: bool = False
) -> dict[float, Fraction]:
    """The paper's search, and two half decades more on each side of its best, again and again.

    As long as that makes the best accuracy higher; up to what was tried already; and not where λ is less than
    the rounding of G, or more than ten times its trace.
    """
    ladder = [10 ** (step / 2) for step in range(-80, 81)]
    everything = x if history is None else np.concatenate([history[0], x])
    trace = sum(float(phi @ phi) for phi in everything)
    accuracies = search(history, x, y, balance)
    while True:
        tried, winner = sorted(accuracies), best(accuracies)
        beside = [lam for lam in tried if not 0.999 < lam / winner < 1.001]
        below = max((lam for lam in beside if lam < winner), default=0.0)
        above = min((lam for lam in beside if lam > winner), default=np.inf)
        down = [lam for lam in ladder if 1.001 * below < lam < 0.999 * winner][-2:]
        up = [lam for lam in ladder if 1.001 * winner < lam < 0.999 * above][:2]
        more = [lam for lam in [*down, *up] if np.finfo(float).eps * trace <= lam <= 10 * trace]
        found = search(history, x, y, balance, more) if more else {}
        if max(found.values(), default=Fraction(0)) <= max(accuracies.values()):
            return accuracies
        accuracies |= found


def best(accuracies: dict[float, Fraction]) -> float:
    """The λ of the highest accuracy; the last that reaches it, going up."""
    winner, highest = 0.0, Fraction(-1)
    for lam in sorted(accuracies):
        if accuracies[lam] >= highest:
            winner, highest = lam, accuracies[lam]
    return winner


def freedom(x: Array, lam: float) -> float:
    """N − tr H: how many samples are left that the fit does not follow."""
    kernel = x @ x.T
    return float(len(x) - np.trace(np.linalg.solve(kernel + lam * np.eye(len(x)), kernel)))


def gcv(x: Array, targets: Array, lam: float) -> float:
    """N ‖Y − HY‖² / (N − tr H)² with the hat matrix H = X (XᵀX + λI)⁻¹ Xᵀ = K (K + λI)⁻¹, K = XXᵀ."""
    n = len(x)
    kernel = x @ x.T
    hat = np.linalg.solve(kernel + lam * np.eye(n), kernel)
    residual = targets - hat @ targets
    return float(n * (residual**2).sum() / (n - np.trace(hat)) ** 2)


def auto_prior(x: Array, y: Array, widths: Sequence[int]) -> tuple[Array, float]:
    """D, one value per column, and λ, of samples that vary in every layer, at least two per class."""
    scatter, classes = within(x, y), len(set(y.tolist()))
    n, d = x.shape
    mean_count = n / classes
    values: list[float] = []
    for depth, width in enumerate(widths):
        own = range(len(values), len(values) + width)
        variance = sum(scatter[j, j] for j in own) / width / (n - classes)
        values += [variance * (1 + 4 / (mean_count + 1)) ** (len(widths) - 1 - depth)] * width
    prior = np.array(values)
    amount = min(d / n, 10.0) if n <= d else (d / n) ** 3
    return prior, amount * float(np.trace(scatter @ np.diag(1 / prior))) / d


def within(x: Array, y: Array) -> Array:
    """S_W, one sample at a time."""
    scatter = np.zeros((x.shape[1], x.shape[1]))
    for phi, label in zip(x, y.tolist(), strict=True):
        around = phi - x[y == label].mean(axis=0)
        scatter += np.outer(around, around)
    return scatter


def two_votes(
    x: Array, y: Array, test: Array, prior: tuple[Array, float], size: float, centre: float
) -> tuple[Array, Array, Array, Array]:
    """The ridge and the cosine vote, samples × classes, before they are mixed, of tests and of class means.

    `prior` are D and λ, `size` is n̄, and `centre` the share of the mean of means that is the centre.
    """
    labels = sorted(set(y.tolist()))
    means = np.array([x[y == label].mean(axis=0) for label in labels])
    inverse = np.linalg.inv(within(x, y) + prior[1] * np.diag(prior[0]))
    between = np.linalg.inv(np.eye(len(labels)) / size + means @ inverse @ means.T)
    middle = centre * means.mean(axis=0)

    def votes(phi: Array) -> tuple[Array, Array]:
        ridge = between @ means @ inverse @ phi
        lengths = [np.sqrt((mean - middle) @ inverse @ (mean - middle)) for mean in means]
        cosine = [
            (phi - middle) @ inverse @ (mean - middle) / length
            for mean, length in zip(means, lengths, strict=True)
        ]
        return ridge, np.array(cosine)

    of_tests, of_means = [votes(phi) for phi in test], [votes(mean) for mean in means]
    return (
        np.array([ridge for ridge, _ in of_tests]),
        np.array([cosine for _, cosine in of_tests]),
        np.array([ridge for ridge, _ in of_means]),
        np.array([cosine for _, cosine in of_means]),
    )


def mean_margin(scores: Array) -> float:
    """By how much row y is higher in column y than in another column, on average over both."""
    classes = range(len(scores))
    leads = [scores[y, y] - scores[y, other] for y in classes for other in classes if y != other]
    return float(np.mean(leads))


def familiarity(x: Array, y: Array, test: Array, prior: tuple[Array, float], centre: float) -> Array:
    """The largest cosine of each test with a class mean, from the centre, as Σ⁻¹ measures angles."""
    means = np.array([x[y == label].mean(axis=0) for label in sorted(set(y.tolist()))])
    inverse = np.linalg.inv(within(x, y) + prior[1] * np.diag(prior[0]))
    middle = centre * means.mean(axis=0)

    def cosine(a: Array, b: Array) -> float:
        return float(a @ inverse @ b / np.sqrt((a @ inverse @ a) * (b @ inverse @ b)))

    return np.array([max(cosine(phi - middle, mean - middle) for mean in means) for phi in test])


def average_accuracy(matrix: Array, t: int) -> float:
    """A_t of the paper, with t = 1, 2, …: (1/t) Σ_{i=1..t} R[t, i]."""
    return sum(matrix[t - 1][i - 1] for i in range(1, t + 1)) / t


def forgetting(matrix: Array, t: int) -> float:
    """F_t of the paper, with t = 2, 3, …; what was not tested cannot have been the best."""
    total = 0.0
    for i in range(1, t):
        asked = [matrix[earlier - 1][i - 1] for earlier in range(1, t)]
        total += max(value for value in asked if not np.isnan(value)) - matrix[t - 1][i - 1]
    return total / (t - 1)


def bootstrap(
    right: list[Array], strata: Array, draws: int, rng: np.random.Generator, by_image: bool = False
) -> Array:
    """A_T of a resampled test set (or the difference of the first two runs' A_T), draw after draw."""
    found = []
    tasks = sorted(set(strata.tolist()))
    for _ in range(draws):
        value = 0.0
        for task in tasks:
            images = np.flatnonzero(strata == task)
            chosen = rng.choice(images, size=len(images), replace=True)
            weight = len(images) / len(strata) if by_image else 1 / len(tasks)
            for run, sign in zip(right, (1, -1), strict=False):
                value += sign * weight * run[chosen].mean()
        found.append(value)
    return np.array(found)
