"""The methods of the benchmark: one class each, which makes learners for the loop."""

from collections.abc import Mapping
from typing import Any, cast

from layup.methods.adam import AdamMethod
from layup.methods.adam_layup import AdamLayUPMethod
from layup.methods.coda_prompt import CODAPromptMethod
from layup.methods.depths import DepthsMethod
from layup.methods.dualprompt import DualPromptMethod
from layup.methods.fsa_lda import FSALDAMethod
from layup.methods.joint import JointMethod
from layup.methods.joint_probe import JointProbeMethod
from layup.methods.l2p import L2PMethod
from layup.methods.laynmc import LayNMCMethod
from layup.methods.layup import LayUPMethod
from layup.methods.layup_average import LayUPAverageMethod
from layup.methods.learner import Learner, Method, Report, Setup
from layup.methods.nmc import NMCMethod
from layup.methods.ranpac import RanPACMethod
from layup.methods.ranpac_layup import RanPACLayUPMethod
from layup.methods.ridge import LayersMethod, RidgeMethod
from layup.methods.sequential import SequentialMethod
from layup.methods.slca import SLCAMethod
from layup.registry import Registry

METHODS: Registry[Method] = Registry("method")
for _method in (
    LayUPMethod,
    RidgeMethod,
    LayUPAverageMethod,
    NMCMethod,
    LayNMCMethod,
    RanPACMethod,
    RanPACLayUPMethod,
    AdamMethod,
    AdamLayUPMethod,
    FSALDAMethod,
    SLCAMethod,
    L2PMethod,
    DualPromptMethod,
    CODAPromptMethod,
    SequentialMethod,
    JointMethod,
    JointProbeMethod,
):
    METHODS.register(_method.name)(_method)
METHODS.register("aper")(AdamMethod)  # as its authors call it since


def method_class(name: str) -> type[Method]:
    """The method of this name, to be given options."""
    return cast("type[Method]", METHODS[name])


def method_from(name: str, options: Mapping[str, Any]) -> Method:
    """The method of this name with these options.

    >>> method_from("layup", {"k": 1})
    LayUPMethod(k=1, lam=None, balance=False, precision='float64')
    >>> method_from("nmc", {"k": 1})
    Traceback (most recent call last):
    layup.errors.InputError: The method 'nmc' has no option 'k'. It takes metric.
    """
    return method_class(name).with_options(options)


__all__ = [
    "METHODS",
    "DepthsMethod",
    "LayersMethod",
    "Learner",
    "Method",
    "Report",
    "Setup",
    "method_class",
    "method_from",
]
