"""A plan: which photos are summed together, and the model that all slices begin with.

A plan is a folder. Its slices are lists of photos as `layup learn` reads them (slice-00017.csv). start.layup
is a model that has learned nothing: it names the network, its features with their steps, the classifier and,
if there is one, the adapter. plan.json says what the slices must be.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Self, Unpack

from layup import schema, storage
from layup.algebra import FOLDS, Dealer
from layup.errors import InputError, MismatchError
from layup.features import Reading
from layup.images import ImageSource, LabelledPhotos, labelled_photos, manifest_text
from layup.model import ImageModel
from layup.schema import HASH, TRUTH, whole

NAME = "plan.json"
START = "start.layup"
FOLD = "fold"
"""The column of the folds in the list of a slice."""
FIELDS: schema.Shape = {"images": whole(1), "slices": [HASH], "model": HASH, "folds": TRUTH}


@dataclass(frozen=True)
class Plan:
    """A plan in a folder.

    images: how many photos there are in all slices.
    slices: the SHA-256 of the list of each slice.
    model: that of what every slice begins with.
    folded: whether λ is searched, on the folds that the lists of the slices name.
    allow_addresses: whether whoever reads photos here allows that they are fetched from addresses.
    """

    folder: Path
    images: int
    slices: tuple[str, ...]
    model: str
    folded: bool
    allow_addresses: bool = field(default=False, compare=False)

    @classmethod
    def write(
        cls,
        folder: str | Path,
        photos: Iterable[tuple[ImageSource, str]],
        model: ImageModel,
        size: int,
        *,
        done: Callable[[int], object] = lambda count: None,
    ) -> Self:
        """Cut photos, each with its label, into slices of `size`, for a model that has learned nothing.

        Only one slice is held, so an iterator may give any number of photos (`layup.images.labelled_parts`).
        If the folder has this very plan already, it is left as it is, with what was computed of it.

        done: is told of each slice how many photos it has.
        """
        folder = Path(folder)
        _require_usable(model, size)
        before = cls.read(folder) if is_plan(folder) else None
        if before is None:
            storage.make_folder(folder)
        folded = model.classifier_.fold_grid is not None
        lists = _lists(photos, size)
        slices: list[str] = []
        images = 0
        for text, count in _dealt(lists) if folded else lists:
            if before is None:
                storage.write_text(folder / slice_name(len(slices)), text)
            slices.append(hashlib.sha256(text.encode()).hexdigest())
            images += count
            done(count)
        if not slices:
            raise InputError("There are no photos to plan.")
        made = cls(folder, images, tuple(slices), _identity(model), folded)
        if before is None:
            _remove_leftovers(folder, len(slices))
            model.save(folder / START)
            about = {"images": made.images, "slices": slices, "model": made.model, "folds": folded}
            storage.write_text(folder / NAME, json.dumps(about, indent=1) + "\n")  # last: now it is a plan
        elif made != before:
            raise InputError(f"'{folder}' holds another plan. Give another folder, or delete it.")
        return made

    @classmethod
    def read(cls, folder: str | Path, *, allow_addresses: bool = False) -> Self:
        """The plan in a folder; with `allow_addresses`, photos are fetched from wherever its lists say."""
        folder = Path(folder)
        if not is_plan(folder):
            raise InputError(f"'{folder}' is no plan: it has no {NAME}. `layup shards` makes one.")
        try:
            values = json.loads((folder / NAME).read_text("utf-8"))
            schema.require(values, FIELDS, NAME)
        except (OSError, ValueError) as error:
            raise storage.damaged(folder / NAME, str(error)) from error
        slices = tuple(values["slices"])
        return cls(folder, values["images"], slices, values["model"], values["folds"], allow_addresses)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of all that decides the result."""
        return hashlib.sha256(json.dumps([self.slices, self.model]).encode()).hexdigest()

    def require_of(self, model: ImageModel) -> None:
        """Refuse a model whose network, features or classifier are not those that were planned."""
        if _identity(model.blank() if model.classes_ else model) != self.model:
            raise MismatchError(
                f"The plan in '{self.folder}' was made for another network, other features or another "
                "classifier than this model has. Make a plan of its `blank()`."
            )

    def photos(self, number: int) -> LabelledPhotos:
        """The photos of a slice, as they were planned."""
        return labelled_photos(self._list(number), allow_addresses=self.allow_addresses)

    def folds(self, number: int) -> list[int]:
        """The fold that each photo of a slice is in; without a search, there is one for all."""
        with self._list(number).open(encoding="utf-8", newline="") as file:
            return [int(row[FOLD]) if self.folded else 0 for row in csv.DictReader(file)]

    def _list(self, number: int) -> Path:
        """Where the list of a slice is, if it is as it was planned."""
        if not 0 <= number < len(self.slices):
            raise InputError(
                f"There is no slice {number} in '{self.folder}': it has {len(self.slices)}, from 0 on."
            )
        path = self.folder / slice_name(number)
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise InputError(f"Cannot read '{path}': {error.strerror}.") from error
        if found != self.slices[number]:
            raise InputError(f"'{path}' has changed since it was planned. Make a new plan.")
        return path

    def start(
        self,
        *,
        weights: str | Path | None = None,
        allow_backbone: bool = False,
        **reading: Unpack[Reading],
    ) -> ImageModel:
        """The model that every slice begins with, which has learned nothing; options as in `layup.load`."""
        path = self.folder / START
        model = ImageModel.load(path, weights=weights, allow_backbone=allow_backbone, **reading)
        if _identity(model) != self.model:
            raise InputError(f"'{path}' is not the model that was planned. Make a new plan.")
        return model


def is_plan(folder: str | Path) -> bool:
    """Whether there is a plan in this folder."""
    return (Path(folder) / NAME).is_file()


def slice_name(number: int) -> str:
    """The name of the list of a slice.

    >>> slice_name(17)
    'slice-00017.csv'
    """
    return f"slice-{number:05}.csv"


def _remove_leftovers(folder: Path, count: int) -> None:
    """Remove slices of a longer plan that was never completed."""
    number = count
    while (path := folder / slice_name(number)).exists():
        path.unlink()
        number += 1


def _lists(photos: Iterable[tuple[ImageSource, str]], size: int) -> Iterator[tuple[str, int]]:
    """The list of each slice, and how many photos it has."""
    rows = iter(photos)
    while part := list(islice(rows, size)):
        yield manifest_text([image for image, _ in part], [label for _, label in part]), len(part)


def _dealt(lists: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The same lists with a column of folds. All labels are counted first: lists wait in temporary files."""
    counts = Counter[str]()
    sizes: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        for text, count in lists:
            counts.update(row["label"] for row in csv.DictReader(io.StringIO(text)))
            Path(folder, str(len(sizes))).write_text(text, "utf-8")
            sizes.append(count)
        dealer = Dealer(counts, FOLDS)
        for number, count in enumerate(sizes):
            head, *rows = csv.reader(io.StringIO(Path(folder, str(number)).read_text("utf-8")))
            label = head.index("label")
            longer = io.StringIO()
            writer = csv.writer(longer, lineterminator="\n")
            writer.writerow([*head, FOLD])
            writer.writerows([*row, dealer.deal(row[label])] for row in rows)
            yield longer.getvalue(), count


def _identity(model: ImageModel) -> str:
    """Hex SHA-256 of network, features and classifier."""
    about: Mapping[str, Any] = model.network.state()[0]
    features, classifier = model.resolved_features.to_dict(), model.classifier_.state()[0]
    decides = [about["fingerprint"], about["engine"], features, classifier]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _require_usable(model: ImageModel, size: int) -> None:
    if size < 1:
        raise InputError(f"Slices of {size} photos are impossible. Use 1 or more.")
    if model.classes_:
        raise InputError(
            "A plan begins with a model that has learned nothing, and this one has. Give its `blank()`."
        )
    if model.statistics_.steps is None:
        raise InputError("Slices can be added to the bit only if sums are exact. Use LayUP(exact=True).")
    if model.session is not None and not model.network.adapted:
        raise InputError(
            "A network is tuned on one machine. Tune it first: let a model learn the first classes with "
            "an adapter, and merge it with what the plan gives."
        )
    if model.per_class:
        raise InputError("A plan keeps no root per class. Leave per_class out.")
    classifier = model.classifier_
    if classifier.needs_samples and not classifier.needs_few and classifier.fold_grid is None:
        raise InputError(
            "This rule for λ looks at all samples together, which no machine has here. Use the default "
            "classifier, or RidgeClassifier."
        )
