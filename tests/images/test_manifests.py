"""Lists of photos: what they may look like, and a sentence with the line for everything else."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from layup.errors import InputError, MissingPackageError
from layup.images import image_digest, labelled_parts, labelled_photos, manifests, parquet, unlabelled_photos
from layup.images.folders import class_folders
from photos import write_photos


def written(path: Path, contents: str | bytes) -> Path:
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return path


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("list.csv", "path,label\nsub/1.jpg,tabby\n2.jpg,beagle\n"),
        ("list.CSV", b"\xef\xbb\xbfFile Name;Class\r\nsub/1.jpg;tabby\r\n\r\n2.jpg;beagle\r\n"),
        ("list.tsv", "width\tlabel\timage\n3\ttabby\tsub/1.jpg\n4\tbeagle\t2.jpg"),
        ("list.csv", '"label","file"\n" tabby ","sub/1.jpg"\n"beagle","2.jpg"\n'),
        ("list.csv", "filename,category\nsub\\1.jpg,tabby\n2.jpg,beagle\n"),
        (
            "list.jsonl",
            '{"path": "sub/1.jpg", "label": "tabby"}\n\n{"class": "beagle", "file_name": "2.jpg"}',
        ),
        (
            "list.ndjson",
            '{"path": "sub\\\\1.jpg", "label": "tabby", "size": [3]}\n{"file": "2.jpg", "label": "beagle"}',
        ),
    ],
)
def test_manifests_of_all_kinds(tmp_path, name, contents):
    found = labelled_photos(written(tmp_path / name, contents))
    assert found.images == [str(tmp_path / "sub" / "1.jpg"), str(tmp_path / "2.jpg")]
    assert found.labels == ["tabby", "beagle"]
    assert found.remarks == []
    assert unlabelled_photos(tmp_path / name) == found.images


def test_a_manifest_of_class_folders_is_as_good_as_they_are(tmp_path):
    paths, labels = class_folders(write_photos(tmp_path / "photos", {0: 3, 1: 2}))
    rows = [f"{path.relative_to(tmp_path)},{label}" for path, label in zip(paths, labels, strict=True)]
    found = labelled_photos(written(tmp_path / "list.csv", "\n".join(["path,label", *rows])))
    assert list(map(image_digest, found.images)) == list(map(image_digest, paths))
    assert found.labels == labels


def test_paths_begin_at_the_manifest_unless_they_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(Path("list.csv"), "path,label\n1.jpg,tabby\n/photos/2.jpg,tabby\n../3.jpg,tabby\n")
    assert labelled_photos("list.csv").images == ["1.jpg", "/photos/2.jpg", "../3.jpg"]


def test_a_backslash_may_be_part_of_a_name(tmp_path):
    written(tmp_path / "a\\1.jpg", b"")
    manifest = written(tmp_path / "list.csv", "path,label\na\\1.jpg,tabby\nb\\1.jpg,tabby\n")
    assert labelled_photos(manifest).images == [str(tmp_path / "a\\1.jpg"), str(tmp_path / "b/1.jpg")]


def test_labels_are_spelled_as_those_of_folders(tmp_path):
    manifest = written(
        tmp_path / "list.jsonl", '{"path": "1.jpg", "label": "cafe\u0301"}\n{"path": "2.jpg", "label": 7}'
    )
    assert labelled_photos(manifest).labels == ["café", "7"]


def test_another_column_may_hold_the_labels(tmp_path):
    manifest = written(tmp_path / "list.csv", "path,label,Bird Species\n1.jpg,bird,robin\n")
    assert labelled_photos(manifest).labels == ["bird"]
    assert labelled_photos(manifest, label="bird species").labels == ["robin"]
    with pytest.raises(
        InputError, match=r"line 1: no name for the labels, such as 'kind', is among 'path, label"
    ):
        labelled_photos(manifest, label="kind")


@pytest.mark.parametrize(
    ("name", "contents", "says"),
    [
        ("a.csv", "", "line 1: no name for the paths, such as 'path', is among ''. Add it."),
        (
            "a.csv",
            "1.jpg,tabby\n",
            "line 1: no name for the paths, such as 'path', is among '1.jpg, tabby'. Add it.",
        ),
        ("a.csv", "path,kind\n1.jpg,tabby\n", "line 1: no name for the labels, such as 'label', is among"),
        ("a.csv", "path,label\n", "lists no photos."),
        ("a.csv", "path,label\n1.jpg,tabby\n2.jpg,\n", "line 3: the label is empty. Give every photo one."),
        ("a.csv", "path,label\n,tabby\n", "line 2: the path is empty. Give the path of a photo."),
        ("a.csv", "path,label\n1.jpg,a,b\n", "line 2: it has 3 values, but the first line has 2."),
        ("a.csv", "path,label\n1.jpg\n", "line 2: it has 1 values, but the first line has 2."),
        ("a.csv", 'path,label\n"1.jpg"x,tabby\n', "line 2: this is not CSV"),
        ("a.csv", 'path,label\n1.jpg,tabby\n"2.jpg,tabby\n', "line 3: this is not CSV"),
        (
            "a.csv",
            "path,label\n1.jpg,\x1b[2J\n",
            r"line 2: the label '\x1b[2J' has control characters. Rename it.",
        ),
        ("a.csv", "path,label\nhttps://host/1.jpg,tabby\n", "line 2: 'https://host/1.jpg' is an address."),
        ("a.csv", b"path,label\n1.jpg,caf\xe9\n", "line 2: this is not UTF-8. Save the list as UTF-8."),
        ("a.csv", "path,label\n".encode("utf-16"), "line 1: this is not UTF-8. Save the list as UTF-8."),
        ("a.csv", "path,label\n" + "x" * 2_000_000, "line 2: it is longer than 1,048,576 bytes."),
        ("a.csv", "path,label\n" + "x" * 200_000, "line 2: this is not CSV (field larger than field limit"),
        ("a.jsonl", '{"path": "1.jpg", "label": "a"}\n{"path": "2.jpg"}', "line 2: no name for the labels"),
        ("a.jsonl", '{"path": "1.jpg", "label": "a"}\n[1]', "line 2: this is not an object such as"),
        ("a.jsonl", '{"path": "1.jpg", "label": }', "line 1: this is not JSON"),
        ("a.jsonl", "[" * 100_000, "line 1: this is not JSON"),
        ("a.jsonl", '{"path": "1.jpg", "label": null}', "line 1: 'label' is None, but must be text."),
        ("a.jsonl", '{"path": ["1.jpg"], "label": "a"}', "line 1: 'path' is ['1.jpg'], but must be text."),
        ("a.jsonl", "", "lists no photos."),
    ],
)
def test_manifests_that_cannot_be_used(tmp_path, name, contents, says):
    manifest = written(tmp_path / name, contents)
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        labelled_photos(manifest)
    assert str(caught.value).startswith(repr(str(manifest)))
    assert "\n" not in str(caught.value)


def test_a_list_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "PART", 4)
    rows = [(f"/photos/{number}.jpg", f"class {number % 3}") for number in range(10)]
    lines = ["path,label", *map(",".join, rows)]
    manifest = written(tmp_path / "list.csv", "\n".join(lines))
    parts = [list(part) for part in labelled_parts(manifest)]
    assert parts == [rows[:4], rows[4:8], rows[8:]]
    assert list(labelled_photos(manifest)) == rows
    unfinished = labelled_parts(written(tmp_path / "list.csv", "\n".join([*lines, "/photos/10.jpg,"])))
    assert len(next(unfinished).labels) == len(next(unfinished).labels) == 4
    with pytest.raises(InputError, match="line 12: the label is empty"):
        next(unfinished)


# Parquet


def table(target: Path, /, **columns) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow.parquet import write_table

    write_table(pyarrow.table(columns), target, row_group_size=7)
    return target


@pytest.mark.parametrize("names", [("path", "label"), ("File Name", "CLASS")])
def test_a_parquet_file_is_as_good_as_a_csv_file(tmp_path, monkeypatch, names):
    monkeypatch.setattr(parquet, "ROWS", 5)
    monkeypatch.setattr(manifests, "PART", 4)
    paths = [f"sub/{number}.jpg" for number in range(20)]
    labels = [f"class {number % 3}" for number in range(20)]
    rows = map(",".join, zip(paths, labels, strict=True))
    expected = labelled_photos(written(tmp_path / "list.csv", "\n".join(["path,label", *rows])))
    manifest = table(tmp_path / "list.parquet", **{"size": [*range(20)], names[1]: labels, names[0]: paths})
    assert labelled_photos(manifest) == expected
    assert [len(part.labels) for part in labelled_parts(manifest)] == [4] * 5
    assert unlabelled_photos(manifest) == expected.images


def test_numbers_and_categories_of_a_parquet_file_are_labels(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    numbers = table(tmp_path / "a.parquet", path=["1.jpg", "2.jpg"], label=[7, 8])
    assert labelled_photos(numbers).labels == ["7", "8"]
    kinds = pyarrow.array(["tabby", "tabby"]).dictionary_encode()
    categories = table(tmp_path / "metadata.parquet", path=["1.jpg", "2.jpg"], label=["a", "b"], kind=kinds)
    assert labelled_photos(categories, label="kind").labels == ["tabby", "tabby"]
    (tmp_path / "a.parquet").unlink()
    assert labelled_photos(tmp_path).labels == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"x": ["1.jpg"]}, ": no name for the paths, such as 'path', is among 'x'. Add it."),
        ({"path": ["1.jpg"]}, ": no name for the labels, such as 'label', is among 'path'. Add it."),
        ({"path": [], "label": []}, " lists no photos."),
        ({"path": ["1.jpg"] * 2, "label": ["a", ""]}, ", row 2: the label is empty. Give every photo one."),
        ({"path": ["1.jpg", None], "label": ["a", "a"]}, ", row 2: 'path' is None, but must be text."),
        (
            {"path": [{"bytes": b"x"}], "label": ["a"]},
            ", row 1: 'path' is {'bytes': b'x'}, but must be text.",
        ),
        ({"path": ["s3://bucket/1.jpg"], "label": ["a"]}, ", row 1: 's3://bucket/1.jpg' is an address."),
    ],
)
def test_parquet_files_that_cannot_be_used(tmp_path, columns, says):
    manifest = table(tmp_path / "a.parquet", **columns)
    with pytest.raises(InputError, match=re.escape(f"{str(manifest)!r}{says}")):
        labelled_photos(manifest)


@pytest.mark.parametrize("cut", [0, 3, 100, -1])
def test_a_damaged_parquet_file_is_one_sentence(tmp_path, cut):
    manifest = table(tmp_path / "a.parquet", path=["1.jpg"] * 50, label=["a"] * 50)
    manifest.write_bytes(manifest.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"a.parquet' cannot be read \(") as caught:
        labelled_photos(manifest)
    assert "\n" not in str(caught.value)


def test_a_parquet_file_with_other_bytes_in_the_middle_is_one_sentence(tmp_path):
    manifest = table(tmp_path / "a.parquet", path=[f"{number}.jpg" for number in range(50)], label=["a"] * 50)
    content = bytearray(manifest.read_bytes())
    content[4:400] = bytes(396)
    manifest.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.parquet'"):
        labelled_photos(manifest)


def test_a_missing_package_is_named_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    manifest = written(tmp_path / "a.parquet", b"PAR1")
    with pytest.raises(MissingPackageError, match=r"Run pip install 'layup-cl\[parquet\]'"):
        labelled_photos(manifest)


def test_labels_are_not_needed_to_predict(tmp_path):
    manifest = written(tmp_path / "list.csv", "image,size\n1.jpg,3\n")
    assert unlabelled_photos(manifest) == [str(tmp_path / "1.jpg")]
    manifest = written(tmp_path / "list.jsonl", '{"file_name": "1.jpg"}')
    assert unlabelled_photos(manifest) == [str(tmp_path / "1.jpg")]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("below", ["", "images/"])
def test_the_metadata_of_a_folder_is_found(tmp_path, kind, below):
    write_photos(tmp_path / "images" if below else tmp_path / ".hidden", {0: 2})
    rows = [
        {"file_name": f"{below}1.jpg", "label": "tabby"},
        {"file_name": f"{below}2.jpg", "label": "beagle"},
    ]
    lines = {
        "csv": ["file_name,label", *(",".join(row.values()) for row in rows)],
        "jsonl": [json.dumps(row) for row in rows],
    }
    written(tmp_path / f"metadata.{kind}", "\n".join(lines[kind]))
    found = labelled_photos(tmp_path)
    assert found.images == [str(tmp_path / f"{below}{number}.jpg") for number in (1, 2)]
    assert found.labels == ["tabby", "beagle"]


def test_class_folders_win_over_metadata_which_is_mentioned(tmp_path):
    write_photos(tmp_path / "photos", {0: 1, 1: 1})
    manifest = written(tmp_path / "photos" / "metadata.csv", "file_name,label\ndigit 0/000.png,zero\n")
    found = labelled_photos(tmp_path / "photos")
    assert found.labels == ["digit 0", "digit 1"]
    (remark,) = found.remarks
    assert remark == f"{str(manifest)!r} is not used, only class folders. Give it itself to use it."
    assert labelled_photos(manifest).labels == ["zero"]
    assert manifest not in unlabelled_photos(tmp_path / "photos")


def test_parts_with_metadata_are_parts_of_a_dataset(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        written(tmp_path / part / "metadata.csv", "file_name,label\n1.jpg,tabby\n")
    with pytest.raises(
        InputError, match=r"holds the parts of a dataset \(test, train\).*Did you mean '.*/train'"
    ):
        labelled_photos(tmp_path)
    assert labelled_photos(tmp_path / "train").labels == ["tabby"]
