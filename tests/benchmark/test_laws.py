"""The laws: every method obeys them, every law can be broken, and no exemption is idle."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from layup import FirstSession, storage
from layup.backbones import Backbone, Preprocessing, load_backbone
from layup.backbones.timm_models import timm_backbone
from layup.benchmark.datasets import Dataset, Part, load_dataset
from layup.benchmark.laws import LAWS, Examples, LawBrokenError, check, exemptions, laws_of
from layup.benchmark.methods import (
    METHODS,
    DepthsMethod,
    LayersMethod,
    Learner,
    Method,
    Report,
    Setup,
    method_class,
    method_from,
)
from layup.benchmark.methods.learner import ONLY
from layup.benchmark.methods.sequential import SequentialMethod
from layup.errors import BadImageError, InputError, LayupError, UnknownNameError
from layup.features.cache import FeatureCache
from layup.images import image_digest, open_image
from learners import tinted
from photos import batch

from timm.layers import resample_abs_pos_embed  # isort: skip  # after layup
from timm.models.vision_transformer import VisionTransformer  # isort: skip

EXAMPLES = Examples(
    [tinted({0: 4, 1: 4}), tinted({2: 5, 3: 4}), tinted({0: 8, 4: 4}, start=20)],
    tinted(dict.fromkeys(range(5), 2), start=60)[0],
)
PAGE = Path(__file__).parents[2] / "docs" / "laws.md"

# A method is small with those of these options that it has.
SMALL: dict[str, Any] = {"k": 1, "width": 32, "epochs": 1, "learning_rate": 0.01, "batch_size": 4}
SMALL |= {
    "samples": 32,
    "alignment_epochs": 2,
    "components": 6,
    "length": 2,
    "general_length": 2,
    "expert_length": 2,
    "pool": 20,
    "top": 2,
}
OWN: dict[str, dict[str, Any]] = {
    "laynmc": {"k": 2},
    "slca": {"learning_rate": 0.03},
    "ssiat": {"learning_rate": 0.003},
    "l2p": {"learning_rate": 0.03},
    "dualprompt": {"learning_rate": 0.03},
    "coda-prompt": {"learning_rate": 0.03},
    "ds-al": {"compensation": 30.0},  # so that residuals decide
    "joint-probe": {"epochs": 4},
    "adam+layup": {"lam": "gcv"},
}


def small(kind: type[Method]) -> Method:
    options = {**SMALL, **OWN.get(kind.name, {})}
    return kind.with_options({name: options[name] for name in kind.option_names() if name in options})


KINDS = dict.fromkeys(map(method_class, METHODS))  # some have two names
EVERY = [*map(small, KINDS), DepthsMethod((1, 2)), LayersMethod((1, 2))]
OTHERWISE = [
    *(
        method_from("layup", {"k": 2, "lam": lam, "balance": b})
        for lam in ("gcv", 1.0)
        for b in (True, False)
    ),
    method_from("layup", {"k": 2, "lam": 100.0, "precision": "float32"}),
    method_from("ridge", {"lam": "search", "precision": "float32"}),
    method_from("ridge", {"lam": 1.0, "layer": 2}),
    method_from("layup-average", {"k": 2, "lam": "gcv", "balance": True}),
    DepthsMethod((1, 3), 1.0),
    method_from("nmc", {"metric": "euclidean"}),
    method_from("ranpac", {"width": 64, "lam": "gcv"}),
    method_from("ranpac", {"width": 64, "lam": 100.0, "precision": "float32"}),
    method_from("randumb", {"width": 0, "balance": False}),
    method_from("fecam", {"power": 0.5, "gamma1": 10.0, "gamma2": 10.0}),
]
"""With options whose arithmetic is another one."""
otherwise = pytest.mark.parametrize("method", OTHERWISE, ids=repr)


@pytest.fixture(scope="module")
def tiny() -> Backbone:
    """The first five blocks of vit-nano, for images of 16 × 16 pixels."""
    network = VisionTransformer(img_size=16, patch_size=8, embed_dim=128, depth=5, num_heads=4, num_classes=0)
    weights = load_file(str(files("layup.backbones") / "vit-nano.safetensors"))
    kept = {name: value for name, value in weights.items() if name in network.state_dict()}
    kept["pos_embed"] = resample_abs_pos_embed(kept["pos_embed"].float(), [2, 2])
    network.load_state_dict(kept)
    preprocessing = Preprocessing((16, 16), (16, 16), "squash", "bicubic")
    return timm_backbone(network, preprocessing, name="tiny", spec=None)


@pytest.fixture(scope="module")
def setup(tiny: Backbone, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    cache = FeatureCache(tmp_path_factory.mktemp("features"))
    # In so few steps, not every method learns with every seed.
    return Setup(tiny, "cil", reading={"cache": cache, "workers": 0, "progress": False}, seed=1)


@pytest.fixture(scope="module")
def session(setup: Setup, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """The same with a first session, which is trained once for all methods."""
    path = tmp_path_factory.mktemp("session") / "session.layup"
    return replace(setup, session=FirstSession("ssf", epochs=1), checkpoint=path)


OFTEN = ("layup", "layup-auto", "nmc", "ranpac", "slca")
"""One method of each kind."""


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, id=method.name, marks=() if method.name in OFTEN else pytest.mark.slow)
        for method in EVERY
    ],
)
def test_every_method_obeys_the_laws(method: Method, setup: Setup, session: Setup) -> None:
    check(method, session if method.adapts else setup, EXAMPLES)


@otherwise
def test_with_any_options_it_goes_on_where_it_was_saved(method: Method, setup: Setup, session: Setup) -> None:
    LAWS["save-and-load"](method, session if method.adapts else setup, EXAMPLES)


@pytest.mark.slow
@otherwise
def test_with_any_options_a_method_obeys_the_laws(method: Method, setup: Setup, session: Setup) -> None:
    check(method, session if method.adapts else setup, EXAMPLES)


@pytest.mark.slow
def test_what_a_stream_carries_on_obeys_the_laws_too(setup: Setup) -> None:
    check(SequentialMethod(batch_size=4), replace(setup, setting="ocl"), EXAMPLES)  # an optimiser


# Exemptions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "law"),
    [(method, law) for method in EVERY if not method.joint for law in method.exempt],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_no_exemption_is_idle(method: Method, law: str, setup: Setup) -> None:
    with pytest.raises(LawBrokenError, match=f"breaks the law '{law}' \\("):
        LAWS[law](method, setup, EXAMPLES)


def test_exemptions_have_a_reason_and_all_other_laws_are_checked() -> None:
    for method in EVERY:
        exempt = exemptions(method)
        assert all(exempt.values())
        assert laws_of(method) == {law.id: law for law in LAWS.values() if law.id not in exempt}
        assert set(exempt) < set(LAWS)


def test_the_page_lists_all_laws_and_all_exemptions() -> None:
    text = PAGE.read_text()
    for id_, law in LAWS.items():
        assert f"- `{id_}`: **{law.description}**" in text
    assert text.count("\n- `") == len(LAWS)
    table = "\n".join(
        f"| `{method.name}` | `{law}` | {why} |"
        for method in EVERY
        for law, why in exemptions(method).items()
    )
    assert table in text
    assert text.count("\n| `") == table.count("\n") + 1


# Every law can be broken


class Pixels(Learner):
    """The nearest mean of 8 × 8 grey pixels: obeys all laws, and those below break one each."""

    def __init__(self) -> None:
        self.sums: dict[str, np.ndarray] = {}  # of each class 64 pixels, and at the end how many images
        self.header: dict[str, Any] = {}

    def pixels(self, image: Any) -> np.ndarray:
        small = open_image(image).convert("L").resize((8, 8))
        return np.array([*np.asarray(small, float).ravel(), 1.0])

    def add(self, label: str, row: np.ndarray) -> None:
        self.sums[label] = self.sums.get(label, 0) + row

    def learn(self, images: Any, labels: Any) -> None:
        rows = [self.pixels(image) for image in images]
        for label, row in zip(labels, rows, strict=True):
            self.add(label, row)

    def means(self) -> dict[str, np.ndarray]:
        return {label: row[:-1] / row[-1] for label, row in sorted(self.sums.items())}

    def rows(self, images: Any) -> np.ndarray:
        return np.array([self.pixels(image)[:-1] for image in images])

    def predict(self, images: Any) -> dict[str, list[str]]:
        means, rows = self.means(), self.rows(images)
        distances = [((rows - mean) ** 2).sum(axis=1) for mean in means.values()]
        return {ONLY: [[*means][index] for index in np.argmin(distances, axis=0)]}

    def reports(self) -> dict[str, Report]:
        return {ONLY: Report({}, sum(row.nbytes for row in self.sums.values()))}

    def save(self, path: Path) -> None:
        rows = [self.sums[label] for label in sorted(self.sums)]
        header = {"classes": sorted(self.sums), **self.header}
        storage.write(path, "pixels", header, {"sums": np.array(rows).reshape(-1, 65)})

    def load(self, path: Path) -> None:
        header, arrays = storage.read(path, "pixels")
        self.sums = dict(zip(header.pop("classes"), arrays["sums"], strict=True))
        self.header = header


@dataclass(frozen=True)
class PixelsMethod(Method):
    """A learner of some kind."""

    name: ClassVar[str] = "pixels"
    kind: type[Pixels] = Pixels

    def begin(self, setup: Setup) -> Learner:
        return self.kind()

    def resume(self, setup: Setup, path: Path) -> Learner:
        learner = self.kind()
        learner.load(path)
        return learner


class RefusesTheOld(Pixels):
    def learn(self, images: Any, labels: Any) -> None:
        if set(labels) & set(self.sums):
            raise InputError("There is nothing new here.")
        super().learn(images, labels)


class RefusesTheNew(Pixels):
    def learn(self, images: Any, labels: Any) -> None:
        if len(self.sums) < 4:
            super().learn(images, labels)


class Guesses(Pixels):
    def predict(self, images: Any) -> dict[str, list[str]]:
        return {ONLY: [min(self.sums) for _ in images]}


class PrefersTheLatest(Pixels):
    def add(self, label: str, row: np.ndarray) -> None:
        self.sums[label] = 0.5 * self.sums.get(label, row) + 0.5 * row


class CountsTasks(Pixels):
    def learn(self, images: Any, labels: Any) -> None:
        alone = Pixels()
        alone.learn(images, labels)
        for label, row in alone.sums.items():
            self.add(label, row / row[-1])


class LearnsUntilTheBadOne(Pixels):
    def learn(self, images: Any, labels: Any) -> None:
        for image, label in zip(images, labels, strict=True):
            self.add(label, self.pixels(image))


class SkipsTheBadOne(Pixels):
    def learn(self, images: Any, labels: Any) -> None:
        for image, label in zip(images, labels, strict=True):
            try:
                self.add(label, self.pixels(image))
            except BadImageError:
                continue


class LooksBackAtTasks(Pixels):
    last: Any = ()

    def learn(self, images: Any, labels: Any) -> None:
        for index in range(len(self.last)):
            self.pixels(self.last[index])
        super().learn(images, labels)
        self.last = images


class LooksBackAtTests(Pixels):
    tested: Any = ()

    def learn(self, images: Any, labels: Any) -> None:
        super().learn(images, labels)
        for index in range(len(self.tested)):
            self.pixels(self.tested[index])

    def predict(self, images: Any) -> dict[str, list[str]]:
        self.tested = images
        return super().predict(images)


class HoldsOnToImages(Pixels):
    """Looks at them only when it has to."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, str]] = []

    def learn(self, images: Any, labels: Any) -> None:
        Pixels().learn(images, labels)  # raises if one is bad
        self.seen += zip(images, list(labels), strict=True)

    def digested(self) -> Pixels:
        digested = Pixels()
        digested.sums = dict(self.sums)
        for image, label in self.seen:
            digested.add(label, digested.pixels(image))
        return digested

    def means(self) -> dict[str, np.ndarray]:
        return self.digested().means()

    def reports(self) -> dict[str, Report]:
        return self.digested().reports()

    def save(self, path: Path) -> None:
        self.digested().save(path)


class HoldsOnToLabels(HoldsOnToImages):
    """Of what is an array it takes a copy, but not of the list of labels."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: list[tuple[list[Any], Any]] = []

    def learn(self, images: Any, labels: Any) -> None:
        Pixels().learn(images, labels)
        self.lists.append(([np.array(image) for image in images], labels))

    def digested(self) -> Pixels:
        self.seen = [pair for images, labels in self.lists for pair in zip(images, labels, strict=True)]
        return super().digested()


class KnowsAllDigits(Pixels):
    def predict(self, images: Any) -> dict[str, list[str]]:
        bright = self.rows(images).mean(axis=1) > 66
        given = super().predict(images)[ONLY]
        return {ONLY: ["digit 9" if each else label for each, label in zip(bright, given, strict=True)]}


class SaysMore(Pixels):
    def predict(self, images: Any) -> dict[str, list[str]]:
        return {ONLY: [*super().predict(images)[ONLY], min(self.sums)]}


class ReportsOtherwise(Pixels):
    def reports(self) -> dict[str, Report]:
        return {"pixels": super().reports()[ONLY]}


class LooksAtTheBatch(Pixels):
    """Brings test images to the same mean as what it has learned."""

    def rows(self, images: Any) -> np.ndarray:
        rows = super().rows(images)
        return rows - rows.mean(axis=0) + np.mean([*self.means().values()], axis=0)


class CountsPredictions(Pixels):
    def predict(self, images: Any) -> dict[str, list[str]]:
        self.header["predicted"] = self.header.get("predicted", 0) + len(images)
        return super().predict(images)


class LosesAClass(Pixels):
    def load(self, path: Path) -> None:
        super().load(path)
        del self.sums[min(self.sums)]


class LosesCounts(Pixels):
    """Predicts as before, but later images have another weight."""

    def load(self, path: Path) -> None:
        super().load(path)
        self.sums = {label: row / row[-1] for label, row in self.sums.items()}


class LosesItsReport(Pixels):
    chosen: ClassVar[dict[str, Any]] = {"images": 0}

    def learn(self, images: Any, labels: Any) -> None:
        super().learn(images, labels)
        self.chosen = {"images": len(images)}  # type: ignore[misc]

    def reports(self) -> dict[str, Report]:
        return {ONLY: replace(super().reports()[ONLY], chosen=self.chosen)}


class TrustsItsLuck(Pixels):
    def luck(self) -> float:
        return float(torch.rand(()))

    def add(self, label: str, row: np.ndarray) -> None:
        super().add(label, row + 1e-6 * self.luck())


class TrustsNumPysLuck(TrustsItsLuck):
    def luck(self) -> float:
        return float(np.random.rand())  # noqa: NPY002 - as many do


class TrustsPythonsLuck(TrustsItsLuck):
    def luck(self) -> float:
        return random.random()


class KeepsImages(Pixels):
    def learn(self, images: Any, labels: Any) -> None:
        super().learn(images, labels)
        kept = self.header.setdefault("images", [])
        kept += [image_digest(image).hex() for image in images]

    def reports(self) -> dict[str, Report]:
        report = super().reports()[ONLY]
        return {ONLY: replace(report, state_bytes=report.state_bytes + 16 * len(self.header["images"]))}


class KeepsTasks(Pixels):
    def learn(self, images: Any, labels: Any) -> None:
        super().learn(images, labels)
        self.header["tasks"] = [*self.header.get("tasks", []), len(images)]

    def reports(self) -> dict[str, Report]:
        report = super().reports()[ONLY]
        return {ONLY: replace(report, state_bytes=report.state_bytes + 8 * len(self.header["tasks"]))}


BREAKERS: dict[type[Pixels], str] = {
    RefusesTheOld: "any-class",
    Guesses: "learns",
    PrefersTheLatest: "order",
    CountsTasks: "batches",
    LearnsUntilTheBadOne: "bad-image",
    SkipsTheBadOne: "bad-image",
    LooksBackAtTasks: "no-looking-back",
    LooksBackAtTests: "no-looking-back",
    HoldsOnToImages: "no-alias",
    HoldsOnToLabels: "no-alias",
    KnowsAllDigits: "known-classes",
    ReportsOtherwise: "known-classes",
    LooksAtTheBatch: "independent-predictions",
    CountsPredictions: "pure-predict",
    LosesAClass: "save-and-load",
    LosesCounts: "save-and-load",
    LosesItsReport: "save-and-load",
    TrustsItsLuck: "same-seed",
    TrustsNumPysLuck: "same-seed",
    TrustsPythonsLuck: "same-seed",
    KeepsImages: "memory-per-image",
    KeepsTasks: "memory-per-task",
}


@pytest.fixture(scope="module")
def anything() -> Setup:
    return Setup(load_backbone("vit-nano"), "cil")  # which `Pixels` does not use


def broken(method: Method, setup: Setup) -> list[str]:
    """The laws that are broken. A learner that cannot go on is not seen to break others."""
    found = []
    for name, law in LAWS.items():
        try:
            law(method, setup, EXAMPLES)
        except LawBrokenError:
            found.append(name)
        except LayupError:
            continue
    return found


def test_there_is_somebody_to_break_every_law() -> None:
    assert set(BREAKERS.values()) == set(LAWS)


def test_pixels_alone_break_no_law(anything: Setup) -> None:
    assert broken(PixelsMethod(), anything) == []


@pytest.mark.parametrize("kind", BREAKERS, ids=lambda kind: kind.__name__)
def test_who_breaks_one_law_is_caught_by_it_and_by_no_other(kind: type[Pixels], anything: Setup) -> None:
    assert broken(PixelsMethod(kind), anything) == [BREAKERS[kind]]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (
            RefusesTheOld,
            r"'any-class' \(a new class may arrive at any time, and an old one may return\): "
            r"task 3 ended in InputError \(There is nothing new here\), and should",
        ),
        (RefusesTheNew, r"'any-class' .*: task 3 left its file as it was, and should have been learned\.$"),
        (
            Guesses,
            r"'learns' \(it learns\): of the 8 images of task 1 it gets 4 right, and should get more than "
            r"the 4 of a constant prediction\.$",
        ),
        (
            SaysMore,
            r"'known-classes' .*: there are 11 predictions for 10 images, and should be one for each\.$",
        ),
        (
            KnowsAllDigits,
            r"'known-classes' .*: a prediction is 'digit 9', and should be one of digit 0, digit 1\.$",
        ),
        (LooksBackAtTasks, r"'no-looking-back' .*: .* \(A task is over: .*\), and should not\.$"),
        (
            SkipsTheBadOne,
            r"'bad-image' .*: a task with a missing file was learned, and should have ended in Bad",
        ),
        (
            KeepsImages,
            r"it keeps 1,104 bytes after half of a task and 1,168 after all of it, and should not\.$",
        ),
    ],
)
def test_what_was_seen_and_what_was_expected_is_said_in_one_sentence(
    kind: type[Pixels], says: str, anything: Setup
) -> None:
    with pytest.raises(LawBrokenError, match=f"^The method 'pixels' breaks the law .*{says}"):
        check(PixelsMethod(kind), anything, EXAMPLES)


class OptsOut(PixelsMethod):
    exempt: ClassVar[dict[str, str]] = {"pure-predict": "it counts predictions"}


class OptsOutOfNothing(PixelsMethod):
    exempt: ClassVar[dict[str, str]] = {"impure-predict": "who knows"}


class OptsOutOfWhatNobodyMay(PixelsMethod):
    exempt: ClassVar[dict[str, str]] = {"independent-predictions": "images vote"}


def test_who_opts_out_of_a_law_is_not_held_to_it(anything: Setup) -> None:
    check(OptsOut(CountsPredictions), anything, EXAMPLES)


def test_only_known_laws_can_be_opted_out_of_and_not_all_of_them(anything: Setup) -> None:
    with pytest.raises(
        UnknownNameError, match=r"Unknown law 'impure-predict'\. .*Did you mean 'pure-predict'"
    ):
        check(OptsOutOfNothing(), anything, EXAMPLES)
    with pytest.raises(
        InputError, match=r"'pixels' opts out of the law 'independent-predictions' \(.*\), and no method may"
    ):
        check(OptsOutOfWhatNobodyMay(LooksAtTheBatch), anything, EXAMPLES)


# Examples


def test_examples_are_taken_from_a_dataset() -> None:
    examples = Examples.of(load_dataset("digits"), 4)
    counts = [Counter(labels) for _, labels in examples.tasks]
    assert counts == [{"0": 4, "1": 4}, {"2": 4, "3": 4}, {"0": 8, "4": 4}]
    digests = [image_digest(image) for images, _ in examples.tasks for image in images]
    digests += map(image_digest, examples.test_images)
    assert len(digests) == len(set(digests)) == 28 + 20


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ([{0: 4, 1: 4}, {2: 4, 3: 4}], "there are 2 tasks instead of three"),
        ([{0: 4}, {2: 4, 3: 4}, {0: 8, 4: 4}], "do not bring two new classes each"),
        ([{0: 4, 1: 4}, {1: 4, 3: 4}, {0: 8, 4: 4}], "do not bring two new classes each"),
        ([{0: 4, 1: 4}, {2: 4, 3: 4}, {0: 8, 1: 4}], "not have both a class that returns and a new one"),
        ([{0: 4, 1: 4}, {2: 4, 3: 4}, {4: 8, 5: 4}], "not have both a class that returns and a new one"),
        ([{0: 4, 1: 3}, {2: 4, 3: 4}, {0: 8, 4: 4}], "4 images per class"),
        ([{0: 4, 1: 4}, {2: 4, 3: 4}, {0: 7, 4: 8}], "no class returns .* with twice as many images"),
    ],
)
def test_examples_in_which_laws_would_not_show_are_refused(tasks: list[dict[int, int]], says: str) -> None:
    with pytest.raises(
        InputError, match=f"^These examples cannot show whether laws are obeyed: .*{says}.*\\.$"
    ):
        Examples([batch(each) for each in tasks], EXAMPLES.test_images)


def test_examples_without_test_images_or_with_too_few_classes_are_refused() -> None:
    with pytest.raises(InputError, match="there are no test images"):
        Examples(EXAMPLES.tasks, [])
    few = Part(*batch({0: 1, 1: 1}))
    with pytest.raises(InputError, match=r"Examples take five classes\. 'few' has 2"):
        Examples.of(Dataset("few", ("digit 0", "digit 1"), few, few))
