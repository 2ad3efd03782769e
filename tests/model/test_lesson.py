"""A lesson is a value: done again, from a file too, it makes an equal model; and it is what a model does."""

from __future__ import annotations
