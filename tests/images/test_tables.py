"""Datasets of Hugging Face: which columns are meant, and that photos are known as those in files."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
datasets = pytest.importorskip("datasets", reason="datasets is not installed")

from PIL import Image  # noqa: E402

from layup.errors import BadImageError, InputError, StorageError, UnknownNameError  # noqa: E402
from layup.features import digests_of  # noqa: E402
from layup.images import image_digest, labelled_photos, unlabelled_photos  # noqa: E402
from photos import crops, save_crops  # noqa: E402


@pytest.fixture(autouse=True)
def quiet(tmp_path_factory, monkeypatch):
    """What is cast or mapped stays in this test, and shows no bars."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
    datasets.disable_progress_bars()


def png(image) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


CONTENTS = [png(image) for image in crops(4, side=16)]
KINDS = ["tabby", "beagle", "tabby", "lynx"]
NAMES = ["beagle", "lynx", "tabby"]
IMAGE = datasets.Image()


def table(columns=None, **features):
    """A table of four photos with their contents, and other columns."""
    values = {"image": [{"bytes": each, "path": None} for each in CONTENTS], **(columns or {})}
    return datasets.Dataset.from_dict(values, features=datasets.Features({"image": IMAGE, **features}))


def labelled():
    numbers = [NAMES.index(name) for name in KINDS]
    return table({"label": numbers}, label=datasets.ClassLabel(names=NAMES))


def contents(images):
    return [Path(each).read_bytes() if isinstance(each, str) else each.contents() for each in images]


@pytest.mark.parametrize(
    "form",
    [
        lambda given: given,
        lambda given: given.with_format("numpy"),
        lambda given: given.with_format("arrow", columns=["label"]),
        lambda given: given.to_iterable_dataset(),
        lambda given: given.cast_column("image", datasets.Image(decode=False)),
        lambda given: given.cast_column("image", datasets.Image(mode="L")),
        lambda given: given.select([3, 2, 1, 0]).select([3, 2, 1, 0]),
        lambda given: datasets.concatenate_datasets([given.select([0, 1]), given.select([2, 3])]),
        lambda given: given.add_column("caption", ["a", "b", "c", "d"]),
    ],
    ids=["plain", "numpy", "hidden", "stream", "encoded", "grey", "reordered", "joined", "captions"],
)
def test_photos_are_taken_as_they_are_encoded_however_the_table_would_give_them(form):
    found = labelled_photos(form(labelled()))
    assert (found.labels, contents(found.images)) == (KINDS, CONTENTS)
    assert digests_of(found.images, {"cache": False}) == [image_digest(each) for each in CONTENTS]
    assert contents(unlabelled_photos(form(labelled()))) == CONTENTS


@pytest.mark.parametrize("streaming", [False, True])
def test_photos_in_files_are_these_files(tmp_path, streaming):
    photos = labelled_photos(save_crops(tmp_path / "photos", 6, 2))
    given = datasets.load_dataset(
        "imagefolder", data_dir=str(tmp_path / "photos"), split="train", streaming=streaming
    )
    found = labelled_photos(given)
    assert sorted(zip(found.images, found.labels, strict=True)) == sorted(
        (str(image), label) for image, label in photos
    )


def test_many_rows_are_read_by_several_processes():
    rows = [{"bytes": png(image), "path": None} for image in crops(60, side=8)]
    given = datasets.Dataset.from_dict({"image": rows}, features=datasets.Features({"image": IMAGE}))
    found = digests_of(unlabelled_photos(given), {"cache": False, "workers": 2})
    assert found == [image_digest(row["bytes"]) for row in rows]


@pytest.mark.parametrize(
    ("columns", "features", "expected"),
    [
        ({"label": KINDS}, {"label": datasets.Value("string")}, KINDS),
        ({"category": KINDS}, {"category": datasets.Value("large_string")}, KINDS),
        ({"label": [3, 1, 3, 2]}, {"label": datasets.Value("int64")}, ["3", "1", "3", "2"]),
        (
            {"label": ["a"] * 4, "kind": [2, 0, 2, 1]},
            {"label": datasets.Value("string"), "kind": datasets.ClassLabel(names=NAMES)},
            KINDS,
        ),
        (
            {"coarse": [0] * 4, "label": [2, 0, 2, 1]},
            {"coarse": datasets.ClassLabel(names=["pet"]), "label": datasets.ClassLabel(names=NAMES)},
            KINDS,
        ),
    ],
    ids=["strings", "large strings", "numbers", "classes before strings", "the usual name"],
)
def test_the_column_of_labels_is_found(columns, features, expected):
    assert labelled_photos(table(columns, **features)).labels == expected


def test_columns_can_be_named():
    two = table(
        {"fine": [2, 0, 2, 1], "coarse": [0] * 4, "thumb": [None] * 4},
        fine=datasets.ClassLabel(names=NAMES),
        coarse=datasets.ClassLabel(names=["pet"]),
        thumb=IMAGE,
    )
    found = labelled_photos(two, image="image", label="fine")
    assert (found.labels, contents(found.images)) == (KINDS, CONTENTS)
    assert labelled_photos(two, image="image", label="coarse").labels == ["pet"] * 4


@pytest.mark.parametrize(
    ("columns", "features", "named", "says"),
    [
        ({}, {}, {}, "has no column of labels .* Its columns are: image. Add one."),
        (
            {"text": KINDS},
            {"text": datasets.Value("string")},
            {},
            "Which column has the labels\\? It could be text. Say so: label='text'.",
        ),
        (
            {"fine": [0] * 4, "coarse": [0] * 4},
            dict.fromkeys(("fine", "coarse"), datasets.ClassLabel(names=NAMES)),
            {},
            "It could be fine or coarse. Say so: label='fine'.",
        ),
        ({"thumb": [None] * 4}, {"thumb": IMAGE}, {}, "several columns of images: image, thumb. Say which"),
        ({}, {}, {"image": "imgae"}, "Unknown column 'imgae'. Known: image. Did you mean 'image'?"),
        ({"x": KINDS}, {"x": datasets.Value("string")}, {"image": "x"}, "'x' holds Value, not images."),
        ({"x": [0.5] * 4}, {"x": datasets.Value("float32")}, {"label": "x"}, "'x' holds Value, not labels."),
        ({}, {}, {"label": "kind"}, "Unknown column 'kind'."),
        (
            {"label": ["a", "", "b", "c"]},
            {"label": datasets.Value("string")},
            {},
            r"Row 1 .* no label \(''\)",
        ),
        ({"label": [0, 1, -1, 2]}, {"label": datasets.ClassLabel(names=NAMES)}, {}, r"Row 2 .* label \(-1\)"),
        ({"label": [0, None, 1, 2]}, {"label": datasets.ClassLabel(names=NAMES)}, {}, r"Row 1 .* \(None\)"),
    ],
)
def test_what_is_not_clear_is_asked_for(columns, features, named, says):
    with pytest.raises(InputError, match=says):
        labelled_photos(table(columns, **features), **named)


def test_a_table_without_images_is_refused():
    paths = datasets.Dataset.from_dict({"path": ["1.jpg"]})
    with pytest.raises(InputError, match=r"no column of images, only path. Make one .*cast_column"):
        unlabelled_photos(paths)
    assert unlabelled_photos(paths.cast_column("path", IMAGE)) == ["1.jpg"]


@pytest.mark.parametrize(
    ("names", "guess"), [(["train", "test"], "train"), (["b", "a"], "b"), (["test", "train"], "train")]
)
def test_of_several_splits_the_likely_one_is_guessed(names, guess):
    splits = datasets.DatasetDict(dict.fromkeys(names, labelled()))
    with pytest.raises(InputError, match=f"DatasetDict has the splits .* mean dataset\\['{guess}'\\]"):
        labelled_photos(splits)
    if "test" in names:
        with pytest.raises(InputError, match=r"mean dataset\['test'\]"):
            unlabelled_photos(splits)
    with pytest.raises(InputError, match="IterableDatasetDict has no splits"):
        labelled_photos(datasets.IterableDatasetDict())


def test_a_transform_is_not_passed_over_in_silence():
    with pytest.raises(InputError, match=r"has a transform .* dataset.with_format\(None\)"):
        labelled_photos(labelled().with_transform(lambda rows: rows))


def test_a_stream_that_does_not_say_its_columns_is_refused():
    with pytest.raises(InputError, match="does not say what its columns are"):
        labelled_photos(labelled().to_iterable_dataset().map(lambda row: row))


@pytest.mark.parametrize("stream", [False, True])
def test_rows_without_an_image_are_bad_one_by_one(stream):
    rows = [{"bytes": CONTENTS[0], "path": None}, None, {"bytes": None, "path": "https://host/1.jpg"}]
    given = datasets.Dataset.from_dict({"image": rows}, features=datasets.Features({"image": IMAGE}))
    _, none, address = unlabelled_photos(given.to_iterable_dataset() if stream else given)
    with pytest.raises(BadImageError, match=r"Cannot use 'row 1 of the dataset': it has no image."):
        image_digest(none)
    with pytest.raises(BadImageError, match=r"only the address 'https://host/1.jpg'. Nothing is fetched"):
        image_digest(address)


def test_a_stream_leaves_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = unlabelled_photos(labelled().to_iterable_dataset())
    assert [*tmp_path.iterdir()] == []
    assert contents(found) == CONTENTS


def test_a_full_disk_is_said(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("layup.images.stream.os.write", full)
    with pytest.raises(StorageError, match=r"cannot be written \(No space left on device\). Make room"):
        unlabelled_photos(labelled().to_iterable_dataset())


def test_an_unknown_column_is_an_unknown_name():
    with pytest.raises(UnknownNameError):
        unlabelled_photos(labelled(), image="photo")


def test_neither_library_is_imported():
    program = (
        "import sys; from layup.images import labelled_photos; labelled_photos([('1.jpg', 'a')]);"
        "assert not {'datasets', 'torch', 'torchvision'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
