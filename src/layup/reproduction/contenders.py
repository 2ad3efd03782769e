"""Whom the paper compares LayUP with, by setting: the methods of its Tables 1 to 3, and all runs of each."""

from __future__ import annotations

from layup.reproduction.spec import RULES, Spec, each_combination, each_network

OURS = "LayUP"


def _of(setting: str, method: str, **options: object) -> Spec:
    return Spec(method, setting=setting).having(**options)


def _streamed(method: str, **options: object) -> tuple[Spec, ...]:
    """With each fixed λ of the paper."""
    fixed = [lam for lam in RULES.values() if not isinstance(lam, str)]
    return tuple(spec for lam in fixed for spec in each_network(_of("ocl", method, lam=lam, **options)))


CONTENDERS: dict[str, dict[str, tuple[Spec, ...]]] = {
    "cil": {
        "L2P": each_network(_of("cil", "l2p")),
        "DualPrompt": each_network(_of("cil", "dualprompt")),
        "CODA-P": each_network(_of("cil", "coda-prompt")),
        "NMC+FSA": each_combination(_of("cil", "nmc")),
        "ADAM": each_combination(_of("cil", "adam")),
        "SLCA": each_network(_of("cil", "slca")),
        "RanPAC": each_combination(_of("cil", "ranpac")),
        OURS: each_combination(_of("cil", "layup", k=6)),
    },
    "dil": {
        "NMC+FSA": each_combination(_of("dil", "nmc")),
        "ADAM": each_combination(_of("dil", "adam")),
        "RanPAC": each_combination(_of("dil", "ranpac")),
        OURS: each_combination(_of("dil", "layup", k=6)),
    },
    "ocl": {
        "Sequential FT": each_network(_of("ocl", "sequential")),
        "NMC": each_network(_of("ocl", "nmc")),
        "RanPAC": _streamed("ranpac"),
        OURS: _streamed("layup", k=6),
    },
}
"""By setting and the paper's name of a method, the runs of which it shows the best."""


def others(setting: str) -> tuple[str, ...]:
    """The methods that LayUP is compared with.

    >>> others("ocl")
    ('Sequential FT', 'NMC', 'RanPAC')
    """
    return tuple(name for name in CONTENDERS[setting] if name != OURS)
