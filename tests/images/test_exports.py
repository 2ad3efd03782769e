"""Exports of FiftyOne and Label Studio, as their own libraries wrote them.

The texts of FiftyOne are those of FiftyOne 1.22.1's exporter of FiftyOneImageClassificationDataset, and of
`Sample.to_json`, with shorter paths; those of Label Studio are from the converter of label-studio-sdk.
"""

from __future__ import annotations

import csv
import json

import pytest

from layup.errors import InputError
from layup.images import labelled_photos, unlabelled_photos


def put(path, *names):
    """Empty files: nothing is opened."""
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).touch()
    return path


def written(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def names(photos, folder):
    return [str(image).removeprefix(f"{folder}/") for image in photos]


# FiftyOne

PLAIN = '{"classes": null,"labels": {"0": "cat","1": "dog","sub/2": "cat"}}'
NUMBERS = (
    '{"classes": ["cat","dog"],"labels": {"0": {"label": 0,"confidence": 0.9},"1": {"label": 1},"sub/2": 0}}'
)
MORE = (
    '{"classes": null,"labels": {"0": {"label": "cat","confidence": 0.9,"attributes": {}},"1": "dog",'
    '"sub/2": {"label": "cat","confidence": null,"attributes": {"logits": [0.5]}}}}'
)


@pytest.mark.parametrize("text", [PLAIN, NUMBERS, MORE], ids=["plain", "numbers", "more"])
@pytest.mark.parametrize("given", ["", "labels.json"])
def test_labels_of_fiftyone(tmp_path, text, given):
    put(tmp_path, "data/0.png", "data/1.jpeg", "data/sub/2.png", "data/3.png")
    written(tmp_path / "labels.json", text)
    found = labelled_photos(tmp_path / given)
    assert names(found.images, tmp_path) == ["data/0.png", "data/1.jpeg", "data/sub/2.png"]
    assert found.labels == ["cat", "dog", "cat"]
    if given:
        assert unlabelled_photos(tmp_path / given) == found.images


def test_photos_of_fiftyone_may_be_elsewhere(tmp_path):
    there = put(tmp_path / "there", "0.png", "1.png", "sub/2.png")
    export = written(tmp_path / "labels.json", PLAIN)
    found = labelled_photos(export, root=there)
    assert names(found.images, there) == ["0.png", "1.png", "sub/2.png"]
    assert names(labelled_photos(export).images, tmp_path) == ["data/0", "data/1", "data/sub/2"]  # not there
    absolute = {f"{there}/0.png": "cat", f"{there}/sub/2.png": "dog"}
    assert labelled_photos(written(export, {"classes": None, "labels": absolute})).images == [*absolute]
    written(export, PLAIN)
    written(
        tmp_path / "data.json", {"0.png": "there/0.png", "1.png": "/x/1.png", "sub/2.png": "there/sub/2.png"}
    )
    found = names(labelled_photos(export).images, tmp_path)
    assert found == ["there/0.png", "/x/1.png", "there/sub/2.png"]


def test_photos_without_one_class_are_left_out(tmp_path):
    export = written(
        tmp_path / "labels.json",
        {"classes": None, "labels": {"0": None, "1": ["cat", "dog"], "2": "cat", "3": {"label": None}}},
    )
    found = labelled_photos(export)
    assert (found.labels, found.remarks) == (
        ["cat"],
        [f"Left out: 3 photos without one label in {str(export)!r}."],
    )
    assert len(unlabelled_photos(export)) == 4


SAMPLE = (
    '{"filepath": "%s","tags": [],"metadata": null,"created_at": null,"last_modified_at": null,'
    '"pred": {"_id": {"$oid": "6aff4c61850e8844854c7b36"},"_cls": "Classification","tags": [],"label": "dog",'
    '"confidence": 0.9},"%s": {"_id": {"$oid": "6aff4c61850e8844854c7b37"},"_cls": "Classification",'
    '"tags": [],"label": "cat"}}'
)


def test_samples_of_fiftyone(tmp_path):
    samples = [SAMPLE % ("data/0.png", "ground_truth"), SAMPLE % ("/there/1.png", "ground_truth")]
    export = written(tmp_path / "samples.json", f'{{"samples": [{",".join(samples)}]}}')
    put(tmp_path, "data/0.png", "metadata.json")
    for given in (export, tmp_path):
        found = labelled_photos(given)
        assert (names(found.images, tmp_path), found.labels) == (
            ["data/0.png", "/there/1.png"],
            ["cat", "cat"],
        )
    assert labelled_photos(export, label="pred").labels == ["dog", "dog"]
    with pytest.raises(InputError, match="has no field of classifications 'prde', only: pred, ground_truth"):
        labelled_photos(export, label="prde")
    written(export, f'{{"samples": [{SAMPLE % ("0.png", "kind")}]}}')
    with pytest.raises(
        InputError, match=r"which field of classifications is meant\? It could be pred or kind. Say so"
    ):
        labelled_photos(export)


# Label Studio


def annotation(number, *choices, **more):
    result = {"from_name": "kind", "to_name": "photo", "type": "choices", "origin": "manual"}
    found = [{**result, "id": "x", "value": {"choices": list(choices)}}] if choices else []
    times = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    return {
        "id": number,
        "completed_by": 1,
        "result": found,
        "was_cancelled": False,
        "ground_truth": False,
        **times,
        **more,
    }


def task(number, image, *annotations, **data):
    about = {"id": number, "file_upload": None, "predictions": [], "meta": {}, "project": 1}
    return {**about, "data": {"image": image, **data}, "annotations": list(annotations)}


UPLOADED, SERVED, NESTED = (
    "/data/upload/1/f921-0.png",
    "/data/local-files/?d=pics/1.png",
    "/data/local-files/?d=pics%2Fsub%2F2.png",
)
FILES = ("1/f921-0.png", "pics/1.png", "pics/sub/2.png")


def test_tasks_of_label_studio(tmp_path):
    tasks = [
        task(1, UPLOADED, annotation(10, "cat")),
        task(2, SERVED, annotation(11, "dog"), annotation(12, was_cancelled=True)),
        task(3, NESTED, annotation(13, "cat")),
        task(4, "/data/upload/1/none.png"),
        task(5, "/data/upload/1/both.png", annotation(14, "cat", "dog")),
        task(6, "/data/upload/1/skipped.png", annotation(15, "cat", was_cancelled=True)),
    ]
    export = written(put(tmp_path, *FILES) / "export.json", tasks)
    found = labelled_photos(export)
    assert (names(found.images, tmp_path), found.labels) == ([*FILES], ["cat", "dog", "cat"])
    assert found.remarks == [f"Left out: 3 photos without one label in {str(export)!r}."]
    assert len(unlabelled_photos(export)) == 6


@pytest.mark.parametrize(
    ("annotations", "label"),
    [
        ([annotation(1, "cat"), annotation(2, "dog"), annotation(3, "cat")], "cat"),
        ([annotation(1, "cat", updated_at="2026-02"), annotation(2, "dog", updated_at="2026-01")], "cat"),
        ([annotation(1, "cat", updated_at="2026-01"), annotation(2, "dog", updated_at="2026-02")], "dog"),
        ([annotation(1, "cat"), annotation(2, "cat"), annotation(3, "dog", ground_truth=True)], "dog"),
    ],
    ids=["most", "first is later", "second is later", "ground truth"],
)
def test_of_several_annotations_most_count_and_then_the_last(tmp_path, annotations, label):
    export = written(tmp_path / "export.json", [task(1, UPLOADED, *annotations)])
    assert labelled_photos(export).labels == [label]


MIN = {"annotator": 1, "created_at": "2026-01-01T00:00:00Z", "lead_time": 1.2}
ROWS = [
    {"image": UPLOADED, "id": 1, "kind": "cat", "annotation_id": 10, "updated_at": "2026-01", **MIN},
    {"image": SERVED, "id": 2, "kind": "dog", "annotation_id": 11, "updated_at": "2026-01", **MIN},
    {"image": SERVED, "id": 2, "kind": "cat", "annotation_id": 12, "updated_at": "2026-02", **MIN},
    {"image": NESTED, "id": 3, "kind": "dog", "annotation_id": 13, "updated_at": "2026-01", **MIN},
    {
        "image": "/data/upload/1/both.png",
        "id": 4,
        "kind": {"choices": ["cat", "dog"]},
        "annotation_id": 14,
        "updated_at": "2026-01",
        **MIN,
    },
]


def as_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(sorted(rows[0]))
        for row in rows:
            writer.writerow([json.dumps(v) if isinstance(v, dict) else v for _, v in sorted(row.items())])
    return path


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_tables_of_label_studio(tmp_path, kind):
    home = put(tmp_path / "media", *(f"upload/{name}" if name[0] == "1" else name for name in FILES))
    export = tmp_path / f"project.{kind}"
    (written if kind == "json" else as_csv)(export, ROWS)
    found = labelled_photos(export, root=home)
    assert (names(found.images, home), found.labels) == (
        ["upload/1/f921-0.png", "pics/1.png", "pics/sub/2.png"],
        ["cat", "cat", "dog"],
    )
    assert found.remarks == [f"Left out: 1 photo without one label in {str(export)!r}."]
    assert len(unlabelled_photos(export)) == 4


def test_photos_may_be_beside_each_other_or_at_addresses(tmp_path):
    put(tmp_path, "f921-0.png")
    export = written(tmp_path / "export.json", [task(1, UPLOADED, annotation(1, "cat"))])
    assert names(labelled_photos(export).images, tmp_path) == ["f921-0.png"]
    written(export, [task(1, "https://host/1.png", annotation(1, "cat"))])
    with pytest.raises(InputError, match=r"item 0: 'https://host/1.png' is an address. Nothing is fetched"):
        labelled_photos(export)
    written(export, [task(1, "s3://bucket/1.png", annotation(1, "cat"), page="https://host/about.html")])
    named = written(tmp_path / "named.json", '{"classes": ["a"], "labels": {"https://host/1.png": 0}}')
    with pytest.raises(InputError, match=r"item 0: 'https://host/1.png' is an address. Nothing is fetched"):
        labelled_photos(named)
    with pytest.raises(InputError, match=r"'s3://bucket/1.png' is an address"):
        labelled_photos(export)


# What is neither


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "is no export that is known. Known are: labels.json and samples.json of FiftyOne"),
        ({"images": []}, "is no export that is known"),
        ([{"path": "1.jpg"}], "is no export that is known"),
        ({"classes": "cat", "labels": {}}, "'classes' is 'cat', but must be a list of names"),
        ({"classes": ["cat"], "labels": {"0": 1}}, "item 0: its class is 1, but there are 1 classes"),
        ({"classes": ["cat"], "labels": {"0": True}}, "item 0: its class is True, but must be text"),
        ({"classes": None, "labels": {"0": "a\x1b"}}, "item 0: the label .* has control characters"),
        ({"labels": {}}, "No photo in .* has one label"),
        ({"samples": [3]}, "has no field of classifications. Label some"),
        ({"samples": [{"filepath": 3, "kind": {"_cls": "Classification"}}]}, "'filepath' is 3, but must be"),
        ([{"data": 3}], "item 0: it is no task of Label Studio's"),
        ([{"data": {"text": "hello"}}], "has no value that could be a photo"),
        (
            [{"image": "1.jpg", **dict.fromkeys(["annotation_id", "annotator", "lead_time"], 1)}],
            "no column of",
        ),
    ],
)
def test_what_is_no_export_is_refused_in_a_sentence(tmp_path, value, says):
    with pytest.raises(InputError, match=says):
        labelled_photos(written(tmp_path / "export.json", value))


def test_a_large_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("layup.images.tasks.LARGEST", 10)
    with pytest.raises(InputError, match="has 66 bytes, and at most 10 bytes of JSON are read"):
        labelled_photos(written(tmp_path / "labels.json", PLAIN))


def test_missing_roots_and_files_are_said(tmp_path):
    export = written(tmp_path / "labels.json", PLAIN)
    with pytest.raises(InputError, match="There is no folder"):
        labelled_photos(export, root="no/such")
    with pytest.raises(InputError, match=r"There is no (file or )?folder"):
        labelled_photos(tmp_path / "none.json")


def test_a_table_that_is_cut_off_is_refused(tmp_path):
    export = as_csv(tmp_path / "project.csv", ROWS)
    export.write_text(export.read_text() + "1,2\n")
    with pytest.raises(InputError, match="item 5: it has 2 values, but the first line has 8"):
        labelled_photos(export)
