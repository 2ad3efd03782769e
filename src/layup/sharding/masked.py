"""One model of several owners, of whose sums nobody sees more than the total.

All sites agree on a name, on who takes part and on the classes, and each two of them on a secret. Each learns
its own photos and sends its sums under masks (`layup.algebra.mask`). Alone, these are random numbers; added
up, the masks cancel to the bit, and the model is the one that learned all photos in one place.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from layup import schema, storage
from layup.algebra import SECRET, SITES, Words, mask, sums_of, words_for, words_of
from layup.errors import InputError, MismatchError
from layup.model import ImageModel
from layup.registry import unknown_name
from layup.schema import HASH, LABEL

KIND = "masked sums"
FIELDS: schema.Shape = {"name": LABEL, "sites": [LABEL], "classes": [LABEL], "network": HASH, "site": LABEL}


@dataclass(frozen=True, init=False)
class Agreement:
    """What all sites agree on beforehand. The order of sites and classes does not matter.

    name: of this round. A new one each time: sums that are sent twice under one name, and differ, give their
        difference away.
    sites: all that take part, 2 to 1,024.
    classes: all that any site has. A site need not have all of them, and does not show which it has.

    >>> Agreement("birds, spring", ["lima", "berlin"], ["wren", "jay"])
    Agreement(name='birds, spring', sites=('berlin', 'lima'), classes=('jay', 'wren'))
    """

    name: str
    sites: tuple[str, ...]
    classes: tuple[str, ...]

    def __init__(self, name: str, sites: Iterable[str], classes: Iterable[str]) -> None:
        (named,) = _checked([name])
        values = {"name": named, "sites": _checked(sites), "classes": _checked(classes)}
        for field, value in values.items():
            object.__setattr__(self, field, value)  # it is frozen
        if not 2 <= len(self.sites) <= SITES:
            raise InputError(
                f"2 to {SITES:,} sites can add up their sums, not {len(self.sites):,}: one alone has nobody "
                "to hide among."
            )
        if not self.classes:
            raise InputError("Agree on at least one class.")

    def masked(self, model: ImageModel, site: str, secrets: Mapping[str, bytes]) -> Masked:
        """What a site sends: the sums of its model under the masks that it shares with each other site.

        secrets: by the name of each other site, 32 random bytes that only these two know.

        Costs one hash of as many bytes as the sums have, for each other site.
        """
        self._require_secrets(site, secrets)
        network, whole = network_of(model), words_of(model.statistics_, self.classes)
        words = np.append(whole, np.uint64(1))  # counts the sites: see `learn_masked`
        for other, secret in secrets.items():
            pair = sorted((site, other))
            purpose = json.dumps([self.name, self.sites, self.classes, network, pair])
            numbers = mask(secret, purpose, len(words))
            words = words + numbers if site == pair[0] else words - numbers
        return Masked(self, network, site, words)

    def _require_secrets(self, site: str, secrets: Mapping[str, bytes]) -> None:
        if site not in self.sites:
            raise unknown_name("site", site, self.sites)
        others = {*self.sites} - {site}
        if others != {*secrets}:
            raise InputError(
                f"'{site}' needs one secret with each other site, {_listed(others)}, and has "
                f"{_listed(secrets)}."
            )
        if len({*secrets.values()}) < len(secrets):
            raise InputError(
                f"'{site}' shares one secret with two other sites, which could then read what it sends. Use "
                f"another one for each: secrets.token_bytes({SECRET})."
            )


@dataclass(frozen=True, eq=False)
class Masked:
    """The masked sums of one site: alone, random numbers.

    network: what its features were computed with, see `network_of`.
    """

    agreement: Agreement
    network: str
    site: str
    words: Words

    def write(self, path: str | Path) -> None:
        """Write it to a file, atomically."""
        agreed = self.agreement
        header = {"name": agreed.name, "sites": agreed.sites, "classes": agreed.classes}
        storage.write(
            path, KIND, {**header, "network": self.network, "site": self.site}, {"words": self.words}
        )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what `write` wrote."""
        header, arrays = storage.read(path, KIND)
        with storage.believed(path):
            schema.require(header, FIELDS, "header")
            words = arrays["words"]
            if words.dtype != np.uint64 or words.ndim != 1:
                raise ValueError(f"its words are {words.dtype} of shape {words.shape}")
            agreed = Agreement(header["name"], header["sites"], header["classes"])
            if header["site"] not in agreed.sites:
                raise ValueError("it is of a site that does not take part")
            return cls(agreed, header["network"], header["site"], words)


def learn_masked(model: ImageModel, parts: Iterable[Masked]) -> ImageModel:
    """Let a model learn what all sites have sent; returns it. Parts are added one by one.

    Refuses if a site is missing: without it, masks are left. The model should be anonymous, as digests of
    photos are not sent, and a photo that two sites have counts twice. Its classifier must not need samples.

    Costs one pass over the words of each part, and d³/3 to check the total.
    """
    _require_able(model)
    total, first, seen = np.zeros(0, np.uint64), None, set[str]()
    for part in parts:
        if first is None:
            first, total = part, np.zeros_like(part.words)
            _require_same_network(model, part)
        _require_alike(first, part)
        if part.site in seen:
            raise InputError(f"'{part.site}' is given twice. Give the masked sums of each site once.")
        seen.add(part.site)
        total = total + part.words
    if first is None:
        raise InputError("There is nothing to add up. Give the masked sums of all sites.")
    agreed = first.agreement
    if missing := {*agreed.sites} - seen:
        raise InputError(
            f"The masked sums of {_listed(missing)} are missing. Without them the masks of the others do not "
            "cancel. If they will not come, the others must agree again without them, under another name."
        )
    if total[-1] != len(agreed.sites):  # each has added 1; with masks left, this is a random number
        raise InputError(
            "The masks do not cancel: two sites have used different secrets. Nothing was learned. Agree "
            "again, under another name, and see that each two sites have the same secret."
        )
    sums = sums_of(total[:-1], model.statistics_, agreed.classes)
    if not sums.total:
        raise InputError("No site has learned a photo.")
    none = np.zeros(0, "S16")
    return model.learn_sums(sums, none, np.zeros(0, np.int32), np.zeros((0, sums.dim), np.float32), [])


def network_of(model: ImageModel) -> str:
    """Hex SHA-256 of what features are computed with: the network, its engine, layers and steps."""
    if model.session is not None and not model.network.adapted:
        raise InputError("A network is tuned on one machine. Tune it first, and give the file to all sites.")
    about: Mapping[str, Any] = model.network.state()[0]
    decides = [about["fingerprint"], about["engine"], model.resolved_features.to_dict()]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _require_able(model: ImageModel) -> None:
    if model.classifier_.needs_samples:
        raise InputError(
            "This classifier chooses its λ by samples, which would have to leave the sites. Use one that "
            "needs only the sums: model.configure(strength=1.0) for the default classifier, lam='gcv', or a "
            "number."
        )


def _require_same_network(model: ImageModel, part: Masked) -> None:
    size = words_for(model.statistics_, len(part.agreement.classes)) + 1
    if part.network != network_of(model) or len(part.words) != size:
        raise MismatchError(
            f"The sums of '{part.site}' are of another network, engine, layers or steps than this model's. "
            "Make all models alike."
        )


def _require_alike(one: Masked, other: Masked) -> None:
    for what, mine, theirs in (
        ("names of the round", one.agreement.name, other.agreement.name),
        ("sites", one.agreement.sites, other.agreement.sites),
        ("classes", one.agreement.classes, other.agreement.classes),
        ("networks, engines, layers or steps", one.network, other.network),
        ("numbers of words", len(one.words), len(other.words)),
    ):
        if mine != theirs:
            raise MismatchError(
                f"'{one.site}' and '{other.site}' have different {what}, so their masks do not cancel. "
                "Agree again, under another name."
            )


def _checked(names: Iterable[str]) -> tuple[str, ...]:
    """Names, each once, sorted."""
    given = Counter(iter(names))  # of a mapping, the keys
    for name in given:
        if not LABEL.holds(name):
            raise InputError(f"A name must be {LABEL.words}, and {schema.shown(name)} is not.")
    if twice := [name for name, times in given.items() if times > 1]:
        raise InputError(f"These names are given twice: {_listed(twice)}.")
    return tuple(sorted(given))


def _listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> _listed(["lima", "berlin"]), _listed([])
    ("'berlin', 'lima'", 'none')
    """
    return ", ".join(f"'{name}'" for name in sorted(names)) or "none"
