"""The methods of the benchmark, which make learners: closed-form ones, and those that train."""

from collections.abc import Mapping
from typing import Any, cast

from layup.benchmark.methods.acil import ACILMethod
from layup.benchmark.methods.adam import AdamLayUPMethod, AdamMethod
from layup.benchmark.methods.closed_form import ModelLearner, closed_form
from layup.benchmark.methods.coda_prompt import CODAPromptMethod
from layup.benchmark.methods.depths import DepthsMethod, LayersMethod
from layup.benchmark.methods.ds_al import DSALMethod
from layup.benchmark.methods.dualprompt import DualPromptMethod
from layup.benchmark.methods.f_oal import FOALMethod
from layup.benchmark.methods.fecam import FeCAMMethod
from layup.benchmark.methods.fourier import KLDAMethod, RanDumbMethod
from layup.benchmark.methods.fsa_lda import FSALDAMethod
from layup.benchmark.methods.joint import JointMethod
from layup.benchmark.methods.joint_probe import JointProbeMethod
from layup.benchmark.methods.l2p import L2PMethod
from layup.benchmark.methods.layup import LayUPAutoMethod, LayUPAverageMethod, LayUPMethod, RidgeMethod
from layup.benchmark.methods.learner import ONLY, Learner, Method, Report, Setup
from layup.benchmark.methods.loranpac import LoRanPACMethod
from layup.benchmark.methods.nearest_mean import LayNMCMethod, NMCMethod
from layup.benchmark.methods.ranpac import RanPACLayUPMethod, RanPACMethod
from layup.benchmark.methods.sequential import SequentialMethod
from layup.benchmark.methods.slca import SLCAMethod
from layup.benchmark.methods.ssiat import SSIATMethod
from layup.registry import Registry, subclass_of

METHODS: Registry[Method] = Registry("method", "layup.methods", subclass_of(Method))
for _method in (
    LayUPMethod,
    LayUPAutoMethod,
    RidgeMethod,
    LayUPAverageMethod,
    NMCMethod,
    LayNMCMethod,
    RanPACMethod,
    RanPACLayUPMethod,
    AdamMethod,
    AdamLayUPMethod,
    FSALDAMethod,
    ACILMethod,
    DSALMethod,
    FOALMethod,
    LoRanPACMethod,
    RanDumbMethod,
    KLDAMethod,
    FeCAMMethod,
    SLCAMethod,
    SSIATMethod,
    L2PMethod,
    DualPromptMethod,
    CODAPromptMethod,
    SequentialMethod,
    JointMethod,
    JointProbeMethod,
):
    METHODS.register(_method.name)(_method)
METHODS.register("aper")(AdamMethod)  # as its authors call it since
METHODS.register("gacl")(ACILMethod)  # as its authors call it where classes return


def method_class(name: str) -> type[Method]:
    """The method of this name, to be given options."""
    return cast("type[Method]", METHODS[name])


def method_from(name: str, options: Mapping[str, Any]) -> Method:
    """The method of this name with these options.

    >>> method_from("layup", {"k": 1})
    layup(k=1, lam=None, balance=False, precision='float64')
    >>> method_from("nmc", {"k": 1})
    Traceback (most recent call last):
    layup.errors.InputError: The method 'nmc' has no option 'k'. It takes metric.
    """
    return method_class(name).with_options(options)


__all__ = [
    "METHODS",
    "ONLY",
    "DepthsMethod",
    "LayUPMethod",
    "LayersMethod",
    "Learner",
    "Method",
    "ModelLearner",
    "Report",
    "Setup",
    "closed_form",
    "method_class",
    "method_from",
]
