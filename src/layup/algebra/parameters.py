"""For each kind of classifier: its parameters, what it chooses while it learns, and what it sums.

Light to import, because files are checked with it.

An option of the ridge classifiers is declared here (`RidgeOptions` says what it means, `RIDGE` what is
allowed), taken in `classifier.LambdaClassifier` and `blocks.DepthsClassifier`, and used there. The methods,
the commands and the files take it from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import TypedDict

from layup.algebra.class_moments import ClassMoments
from layup.algebra.class_sums import ClassSums
from layup.algebra.samples import PRECISIONS
from layup.algebra.statistics import GramStatistics
from layup.errors import InputError
from layup.registry import unknown_name
from layup.schema import AMOUNT, TRUTH, Rule, fields_of, listed, one_of, whole

LAMBDA_RULES = ("search", "gcv")
GRIDS = ("wide", "paper", "official")
METRICS = ("cosine", "euclidean")
SHRINKAGES = ("oas",)


class RidgeOptions(TypedDict, total=False):
    """How sums are solved, besides λ.

    balance: treat classes of different size alike. Changes nothing where sizes are equal.
    precision: of new sums and of solving with them. "float32" is there to compare with other code: it halves
        the memory, and ruins predictions where λ is small and samples are fewer than dimensions.
    grid: which values of λ are searched. "paper": its sixteen. "wide": these, and on beyond the best of them
        where the paper's end, or lie far apart. "official": the paper's, and of equally good ones that which
        the authors' code tries first, mostly the smallest, where otherwise the largest is taken.
    """

    balance: bool
    precision: str
    grid: str


Parameters = dict[str, Rule]

LAM = one_of(*LAMBDA_RULES) | AMOUNT
STRENGTH = Rule("a number > 0", lambda value: AMOUNT.holds(value) and value > 0)
SHARE = Rule("a number ≥ 0 and below 1", lambda value: AMOUNT.holds(value) and value < 1)
PRECISION = one_of(*PRECISIONS)
RIDGE: Parameters = {"lam": LAM, "balance": TRUTH, "precision": PRECISION, "grid": one_of(*GRIDS)}
ONE_LAMBDA: Parameters = {"lambda": AMOUNT.or_none()}
LAMBDA_PER_BLOCK: Parameters = {"lambdas": fields_of(AMOUNT)}
SOME_LAYERS: Parameters = {"depths": listed(whole(1))}


@dataclass(frozen=True)
class Kind:
    """The parameters of a kind of classifier, what it chooses while it learns, and what it sums."""

    parameters: Parameters
    chosen: Parameters
    sums: type[ClassSums] = GramStatistics


KINDS = {
    "auto": Kind({"strength": one_of("search") | STRENGTH}, {"strength": STRENGTH}),
    "ridge": Kind(RIDGE, ONE_LAMBDA),
    "held-out ridge": Kind({"lam": LAM, "seed": whole(), "precision": PRECISION}, ONE_LAMBDA),
    "average of ridges": Kind(RIDGE, LAMBDA_PER_BLOCK),
    "ridge per depth": Kind({**RIDGE, **SOME_LAYERS}, LAMBDA_PER_BLOCK),
    "ridge per layer": Kind({**RIDGE, **SOME_LAYERS}, LAMBDA_PER_BLOCK),
    "nearest mean": Kind({"metric": one_of(*METRICS)}, {}, ClassSums),
    "truncated": Kind({"truncate": SHARE}, {}),
    "discriminant": Kind({"lam": one_of(*SHRINKAGES) | AMOUNT, "balance": TRUTH}, {}),
    "class covariances": Kind({"gamma1": STRENGTH, "gamma2": AMOUNT}, {}, ClassMoments),
}


def require_rule(lam: float | str) -> None:
    """Refuse what is not a way to choose λ."""
    if isinstance(lam, str):
        if lam not in LAMBDA_RULES:
            raise unknown_name("rule for λ", lam, [*LAMBDA_RULES, "a number ≥ 0"])
    else:
        require_number(lam, "a number ≥ 0, 'search' or 'gcv'")


def require_number(lam: float, allowed: str = "a number ≥ 0", name: str = "λ") -> None:
    """Refuse what is not a λ; `allowed` says what is."""
    if not (isinstance(lam, Real) and 0 <= lam < inf):
        raise InputError(f"{name} = {lam} cannot be used: give {allowed}.")
