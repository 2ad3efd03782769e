"""The methods of the benchmark: one class each, which makes learners for the loop."""

from collections.abc import Mapping
from typing import Any

from layup.methods.depths import DepthsMethod
from layup.methods.learner import Learner, Method, Report, Setup
from layup.methods.models import LayNMCMethod, LayUPMethod, NMCMethod
from layup.registry import Registry

METHODS: Registry[Method] = Registry("method")
for _method in (LayUPMethod, NMCMethod, LayNMCMethod):
    METHODS.register(_method.name)(_method.with_options)


def method_from(name: str, options: Mapping[str, Any]) -> Method:
    """The method of this name with these options.

    >>> method_from("layup", {"k": 1})
    LayUPMethod(k=1, lam=None, balance=False)
    >>> method_from("nmc", {"k": 1})
    Traceback (most recent call last):
    layup.errors.InputError: The method 'nmc' has no option 'k'. It takes no options.
    """
    return METHODS[name](options)


__all__ = ["METHODS", "DepthsMethod", "Learner", "Method", "Report", "Setup", "method_from"]
