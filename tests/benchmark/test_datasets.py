"""Every layout is made here of tiny images, right and wrong; labels must come from names and lists alone."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import subprocess
import sys
import urllib.error
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import layup.compat  # noqa: F401
from layup.benchmark.datasets import (
    DATASETS,
    Dataset,
    Part,
    Report,
    check_dataset,
    data_folder,
    digits as digits_module,
    load_dataset,
    source_of,
)
from layup.benchmark.datasets.dataset import Contents
from layup.benchmark.datasets.folders import read_parts, split
from layup.errors import InputError, UnknownNameError
from layup.formats import has_controls
from layup.images import decode

NAMES = (
    "cifar100",
    "imagenet-r",
    "imagenet-a",
    "cub200",
    "omnibenchmark",
    "vtab",
    "cars196",
    "cddb-hard",
    "s-domainnet",
    "imagenet-r-domains",
    "digits",
    "digits-styles",
)
STYLES = [
    "sketch",
    "art",
    "cartoon",
    "deviantart",
    "embroidery",
    "graffiti",
    "graphic",
    "misc",
    "origami",
    "painting",
    "sculpture",
    "sticker",
    "tattoo",
    "toy",
    "videogame",
]


def encoded() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(buffer, "PNG")
    return buffer.getvalue()


PNG = encoded()


def put(root: Path, *names: str, content: bytes = PNG) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def tree(root: Path, classes=("b", "a"), train=2, test=1, parts=("train", "test")) -> Path:
    """{train,test}/CLASS/IMAGE, made in an odd order."""
    for label in classes:
        for part, count in zip(parts, (train, test), strict=True):
            put(root, *(f"{part}/{label}/{i}.png" for i in reversed(range(count))))
    return root


def names(part: Part, root: Path) -> list[str]:
    return [str(Path(path).relative_to(root)) for path in part.images]


@pytest.fixture
def no_decoding(monkeypatch):
    """Whoever opens an image to list it fails."""

    def refuse(*_, **__):
        raise AssertionError("an image was opened")

    monkeypatch.setattr(Image, "open", refuse)
    monkeypatch.setattr(decode, "open_image", refuse)


# Datasets in memory


def test_parts_have_one_label_and_one_domain_each():
    with pytest.raises(InputError, match="2 images but 1 labels"):
        Part(["a", "b"], ["x"])
    with pytest.raises(InputError, match="1 images but 2 domains"):
        Part(["a"], ["x"], ["d", "e"])
    assert len(Part(["a"], ["x"], ["d"])) == 1


@pytest.mark.parametrize(
    ("classes", "train", "test", "domains", "reason"),
    [
        (("x",), Part(["1"], ["x"]), Part(["2"], ["y"]), (), "labels are not among the classes: y"),
        (("x",), Part(["1", "2"], ["x", "z"]), Part([], []), (), "not among the classes: z"),
        (("x", "y"), Part(["1"], ["x"]), Part(["2"], ["y"]), (), "no training images of: y"),
        (("x", "x"), Part(["1"], ["x"]), Part([], []), (), "classes are named more than once: x"),
        (("x",), Part(["1"], ["x"]), Part(["1"], ["x"]), (), "both for training and for testing: 1"),
        (("x",), Part(["1"], ["x"], ["d"]), Part([], []), (), "every image has a domain"),
        (("x",), Part(["1"], ["x"]), Part([], []), ("d",), "every image has a domain"),
        (("x",), Part(["1"], ["x"], ["d"]), Part(["2"], ["x"]), ("d",), "every image has a domain"),
        (("x",), Part(["1"], ["x"], ["d"]), Part(["2"], ["x"], ["e"]), ("d",), "not among the domains: e"),
        (("x",), Part(["1"], ["x"], ["d"]), Part([], []), ("d", "e"), "training images of the domains: e"),
        (("x",), Part(["1"], ["x"], ["d"]), Part([], []), ("d", "d"), "domains are named more than once: d"),
    ],
)
def test_datasets_that_cannot_be_learned(classes, train, test, domains, reason):
    with pytest.raises(InputError, match=rf"'bad' cannot be used\. .*{reason}.*\.$"):
        Dataset("bad", classes, train, test, domains)
    assert reason in " ".join(Contents(classes, train, test, domains).faults())


def test_a_test_part_may_lack_a_class():
    dataset = Dataset("pets", ("x", "y"), Part(["1", "2"], ["x", "y"]), Part([], []))
    assert list(Contents(dataset.classes, dataset.train, dataset.test).faults()) == []
    assert (dataset.tasks, dataset.shuffled, dataset.first, dataset.domains) == (10, True, None, ())


def test_a_sample_has_so_many_classes_and_images_in_their_own_order():
    labels = [f"class {i}" for i in range(6) for _ in range(8)]
    part = Part([f"{i}.png" for i in range(48)], labels)
    test = Part([f"t{i}.png" for i in range(12)], [f"class {i}" for i in range(6) for _ in range(2)])
    dataset = Dataset("many", tuple(sorted(set(labels))), part, test, tasks=5)
    small = dataset.sampled(4, 3)
    assert len(small.classes) == 4
    assert small.classes == tuple(name for name in dataset.classes if name in small.classes)
    assert Counter(small.train.labels) == dict.fromkeys(small.classes, 3)
    assert Counter(small.test.labels) == dict.fromkeys(small.classes, 2)  # there are no more
    indices = [part.images.index(image) for image in small.train.images]
    assert indices == sorted(indices)
    assert small.tasks == 4
    assert small == dataset.sampled(4, 3)
    assert small != dataset.sampled(4, 3, seed=1)
    assert dataset.sampled(99, 99).train == dataset.train


def test_a_sample_has_so_many_images_of_each_class_in_each_domain():
    labels, domains = ["a", "b"] * 12, ["ink"] * 8 + ["oil"] * 16
    part = Part([f"{i}.png" for i in range(24)], labels, domains)
    small = Dataset("styles", ("a", "b"), part, Part([], [], []), ("ink", "oil"), tasks=2).sampled(2, 3)
    assert Counter(zip(small.train.labels, small.train.domains, strict=True)) == dict.fromkeys(
        [(label, domain) for label in "ab" for domain in ("ink", "oil")], 3
    )
    assert small.domains == ("ink", "oil")


@pytest.mark.parametrize("size", [(0, 3), (3, 0)])
def test_a_sample_of_nothing_is_refused(size):
    part = Part(["a.png"], ["a"])
    with pytest.raises(InputError, match=r"is impossible\. Use 1 or more"):
        Dataset("one", ("a",), part, Part([], [])).sampled(*size)


def test_the_fingerprint_moves_with_the_folder(tmp_path):
    here = tree(tmp_path / "here" / "photos")
    there = tmp_path / "some" / "where" / "else"
    shutil.copytree(here, there)
    first, second = (load_dataset(f"folder:{root}").fingerprint for root in (here, there))
    assert first == second
    assert len(first) == 32
    assert int(first, 16)


def test_the_fingerprint_tells_relative_from_absolute_paths_not_apart(tmp_path, monkeypatch):
    tree(tmp_path / "photos")
    absolute = load_dataset(f"folder:{tmp_path}/photos").fingerprint
    monkeypatch.chdir(tmp_path)
    assert load_dataset("folder:photos").fingerprint == absolute


def test_whatever_decides_the_data_changes_the_fingerprint(tmp_path):
    root = tree(tmp_path / "photos")
    prints = [load_dataset(f"folder:{root}").fingerprint]

    def changed() -> bool:
        prints.append(load_dataset(f"folder:{root}").fingerprint)
        return len(set(prints)) == len(prints)

    put(root, "train/a/9.png")
    assert changed()
    (root / "train/a/9.png").rename(root / "train/a/8.png")
    assert changed()
    (root / "train/a/8.png").rename(root / "test/a/8.png")
    assert changed()
    (root / "test/a/8.png").write_bytes(PNG + b"more")
    assert changed()
    (root / "train/a").rename(root / "train/b2")
    (root / "test/a").rename(root / "test/b2")
    assert changed()


def test_pixels_labels_and_domains_change_the_fingerprint():
    grey = np.zeros((2, 2), np.uint8)
    both = Part([grey, grey + 1], ["x", "x"], ["d", "e"])
    swapped = Part([grey, grey + 1], ["x", "x"], ["e", "d"])
    brighter = Part([grey, grey + 2], ["x", "x"], ["d", "e"])
    datasets = [
        Dataset("m", ("x",), both, Part([], []), ("d", "e")),
        Dataset("m", ("x",), swapped, Part([], []), ("d", "e")),
        Dataset("m", ("x",), brighter, Part([], []), ("d", "e")),
        Dataset("m", ("x",), Part([Image.fromarray(grey)], ["x"]), Part([], [])),
    ]
    assert len({each.fingerprint for each in datasets}) == len(datasets)
    again = Dataset("other name", ("x",), Part([grey.copy()], ["x"]), Part([], []))
    assert again.fingerprint == datasets[-1].fingerprint
    other_way_round = Dataset("m", ("x",), both, Part([], []), ("e", "d"))  # the same data, learned otherwise
    assert other_way_round.fingerprint == datasets[0].fingerprint


def test_the_fingerprint_of_a_file_that_is_gone(tmp_path):
    root = tree(tmp_path)
    dataset = load_dataset(f"folder:{root}")
    (root / "train/a/1.png").unlink()
    with pytest.raises(InputError, match=r"a/1\.png' of the dataset 'folder:.*' cannot be read"):
        _ = dataset.fingerprint


# Names


def test_all_names_and_their_facts():
    assert tuple(DATASETS) == NAMES
    for name in NAMES:
        source = DATASETS[name]()
        assert source.name == name
        assert source.settings in (("cil", "ocl"), ("dil",))
        assert source.title
        assert source.counts
        if source.build is None:
            assert source.layouts
            assert "http" in source.where
        for train, test in source.counts.values():
            assert train is None or train > 0
            assert test > 0
        assert next(iter(source.counts.values()))[0] is not None


def test_counts_in_circulation():
    def known(name):
        return list(source_of(name).counts.values())

    assert known("cifar100") == [(50000, 10000)]
    assert known("imagenet-r") == known("imagenet-r-domains") == [(24000, 6000)]
    assert known("imagenet-a") == [(5981, 1519), (6056, 1419)]
    assert known("cub200") == [(9430, 2358), (9465, 2323), (5994, 5794)]
    assert known("omnibenchmark") == [(89697, 5985), (89668, 5983)]
    assert known("vtab") == [(1796, 8619)]
    assert known("cars196") == [(8144, 8041)]
    assert known("cddb-hard") == [(16068, 10706), (None, 5353)]
    assert known("s-domainnet") == [(20624, 176743)]
    lists = source_of("imagenet-r-domains").ways[1].by_domain
    (sizes,) = lists.values()
    assert list(sizes) == STYLES
    assert (sum(train for train, _ in sizes.values()), sum(test for _, test in sizes.values())) == (
        24000,
        6000,
    )


def test_data_under_a_known_name_with_unknown_numbers_is_loaded_with_a_warning(tmp_path, caplog):
    tree(tmp_path / "cub")
    assert len(load_dataset("cub200", tmp_path).classes) == 2
    assert "not CUB-200 as it is known" in caplog.text
    assert "layup datasets check cub200" in caplog.text
    caplog.clear()
    load_dataset("digits")
    load_dataset(f"folder:{tmp_path / 'cub'}")
    assert caplog.text == ""


def test_names_that_nobody_knows():
    with pytest.raises(UnknownNameError, match=r"Known: cifar100, .*folder:PATH.*Did you mean 'cub200'\?"):
        load_dataset("cub20")
    with pytest.raises(UnknownNameError, match="Unknown dataset 'ftp:x'"):
        load_dataset("ftp:x")
    with pytest.raises(InputError, match=r"'folder:' names no folder\. Write folder:PATH"):
        load_dataset("folder:")


def test_the_folder_of_all_data(monkeypatch, tmp_path):
    monkeypatch.delenv("LAYUP_DATA", raising=False)
    assert data_folder() == Path("data")
    monkeypatch.setenv("LAYUP_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder("x") == Path("x")
    assert data_folder("~") == Path.home()
    tree(tmp_path / "cub")
    assert load_dataset("cub200").layout == "cub/{train,test}/CLASS"


@pytest.mark.parametrize("name", [name for name in NAMES if source_of(name).build is None])
def test_a_missing_dataset_names_its_layouts_and_where_to_get_it(name, tmp_path):
    source = source_of(name)
    for data, reason in [(tmp_path, "nothing of it in"), (tmp_path / "no", "There is no folder")]:
        for use in (load_dataset, check_dataset):
            with pytest.raises(InputError) as caught:
                use(name, data)
            text = str(caught.value)
            assert f"'{name}'" in text
            assert reason in text
            assert source.where in text
            for layout in source.layouts:
                assert f"\n  {data}/{layout}" in text
    assert source.locate(tmp_path) is None


def test_importing_datasets_loads_nothing_heavy():
    code = (
        "import sys, layup.benchmark.datasets as d; [f() for f in d.DATASETS.values()]; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "torchvision", "sklearn", "scipy", "timm"} & set(done.stdout.split()) == set()


# Trees


TREES = {
    "cifar100": ["cifar100"],
    "imagenet-r": ["imagenetr", "imagenet-r"],
    "imagenet-a": ["imagenet-a"],
    "cub200": ["cub"],
    "omnibenchmark": ["omnibenchmark"],
    "vtab": ["vtab", "vtab-cil/vtab"],
    "cars196": ["cars"],
}


@pytest.mark.parametrize(("name", "folder"), [(name, one) for name, some in TREES.items() for one in some])
@pytest.mark.parametrize("test", ["test", "val", "valid", "validation"])
def test_trees(name, folder, test, tmp_path, no_decoding):
    root = tree(tmp_path / folder, parts=("train", test))
    put(
        root,
        "train/.DS_Store",
        "train/a/.hidden.png",
        "train/a/Thumbs.db",
        "__MACOSX/train/c/1.png",
        "README",
    )
    for data in (tmp_path, root):
        dataset = load_dataset(name, data)
        assert dataset.name == name
        assert dataset.classes == ("a", "b")
        assert names(dataset.train, root) == [f"train/{each}.png" for each in ("a/0", "a/1", "b/0", "b/1")]
        assert dataset.train.labels == ["a", "a", "b", "b"]
        assert names(dataset.test, root) == [f"{test}/{each}.png" for each in ("a/0", "b/0")]
        assert dataset.test.labels == ["a", "b"]
        assert dataset.domains == ()
        assert dataset.train.domains is None
    assert load_dataset(name, tmp_path).layout == f"{folder}/{{train,{test}}}/CLASS"
    assert load_dataset(name, root).layout == f"{root.name}/{{train,{test}}}/CLASS"
    for data in (tmp_path, root):
        assert source_of(name).locate(data, by_name=True).folder == root


def test_test_comes_before_val_and_case_does_not_matter(tmp_path):
    tree(tmp_path, parts=("Train", "val"))
    tree(tmp_path, parts=("Train", "Test"), test=2)
    dataset = load_dataset("cub200", tmp_path)
    assert {Path(path).parts[-3] for path in dataset.test.images} == {"Test"}


def test_what_is_usual_of_each():
    usual = {name: (source_of(name).tasks, source_of(name).shuffled, source_of(name).first) for name in NAMES}
    assert usual["vtab"] == (5, False, None)
    assert usual["cars196"] == (10, True, 16)
    assert usual["digits"] == (5, True, None)
    assert usual["imagenet-r-domains"][0] == 15
    assert all(usual[name] == (10, True, None) for name in ("cifar100", "imagenet-r", "cub200"))


def test_a_folder_of_another_name_counts_only_when_pointed_at(tmp_path):
    tree(tmp_path)
    assert source_of("cub200").locate(tmp_path).folder == tmp_path
    assert source_of("cub200").locate(tmp_path, by_name=True) is None


def test_a_folder_of_its_name_comes_before_what_lies_next_to_it(tmp_path):
    tree(tmp_path)
    root = put(tmp_path / "imagenet-r", "n01/art_1.jpg", "n01/art_2.jpg")
    lists(tmp_path, ["n01/art_1.jpg"], ["n01/art_2.jpg"])
    assert source_of("imagenet-r").locate(tmp_path).folder == root


def test_a_tree_without_a_test_folder(tmp_path):
    tree(tmp_path / "cub")
    shutil.rmtree(tmp_path / "cub/test")
    with pytest.raises(
        InputError, match=r"not laid out .*cub' is there, but it has no folder test\."
    ) as caught:
        load_dataset("cub200", tmp_path)
    assert f"{tmp_path}/cub/{{train,test}}/CLASS/IMAGE" in str(caught.value)
    shutil.rmtree(tmp_path / "cub/train")
    with pytest.raises(InputError, match="it has no folder train and no folder test"):
        load_dataset("cub200", tmp_path)


def test_parts_that_are_not_there_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="has no folder train and no folder test"):
        read_parts(tmp_path)


def test_trees_with_classes_missing(tmp_path):
    root = tree(tmp_path / "cub")
    put(root, "test/c/1.png")
    with pytest.raises(InputError, match="no training images of: c"):
        load_dataset("cub200", tmp_path)
    (root / "train/c").mkdir()
    with pytest.raises(InputError, match="no training images of: c"):
        load_dataset("cub200", tmp_path)
    shutil.rmtree(root / "test")
    (root / "test").mkdir()
    with pytest.raises(InputError, match="test' has no class folders"):
        load_dataset("cub200", tmp_path)


def test_the_order_of_the_file_system_does_not_matter(tmp_path, monkeypatch):
    root = tree(tmp_path / "photos", classes=("c", "a", "b"), train=5)
    domains = tmp_path / "domains"
    for domain in ("y", "x"):
        tree(domains / domain)
    scandir = os.scandir

    class Reversed:
        def __init__(self, folder):
            with scandir(folder) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self):
            return iter(self.entries)

        def __exit__(self, *_):
            pass

    loaded = [load_dataset(f"folder:{root}"), load_dataset(f"domains:{domains}")]
    unsplit = load_dataset(f"folder:{root}/train")
    monkeypatch.setattr(os, "scandir", Reversed)
    assert [load_dataset(f"folder:{root}"), load_dataset(f"domains:{domains}")] == loaded
    assert load_dataset(f"folder:{root}/train") == unsplit


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    tree(tmp_path / "cub")

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(InputError, match=r"cub' cannot be read \(Permission denied\)"):
        load_dataset("cub200", tmp_path)


def test_one_spelling_of_a_name_is_one_class(tmp_path):
    put(tmp_path, "train/caf\u00e9/1.png", "test/cafe\u0301/1.png")
    assert load_dataset(f"folder:{tmp_path}").classes == ("caf\u00e9",)


# Your own folders


def test_a_folder_without_a_split(tmp_path, no_decoding):
    put(tmp_path, *(f"{label}/{i:02}.png" for label in ("tabby", "lynx") for i in range(10)))
    put(tmp_path, "pair/1.png", "pair/2.png", "single/1.png")
    dataset = load_dataset(f"folder:{tmp_path}", seed=3)
    assert Counter(dataset.train.labels) == {"lynx": 8, "tabby": 8, "pair": 1, "single": 1}
    assert Counter(dataset.test.labels) == {"lynx": 2, "tabby": 2, "pair": 1}
    together = sorted([*dataset.train.images, *dataset.test.images])
    assert together == sorted(tmp_path.glob("*/*.png"))
    for part in (dataset.train, dataset.test):
        assert [Path(path).parent.name for path in part.images] == part.labels
        assert part.images == sorted(part.images)
    assert dataset.classes == ("lynx", "pair", "single", "tabby")
    assert dataset.tasks == 4  # there are no ten classes
    assert "split with seed 3" in dataset.layout
    assert load_dataset(f"folder:{tmp_path}", seed=3) == dataset
    assert load_dataset(f"folder:{tmp_path}", seed=4).test != dataset.test
    with pytest.raises(InputError, match="whole number ≥ 0, and -1"):
        load_dataset(f"folder:{tmp_path}", seed=-1)


def test_the_split_of_a_class_does_not_depend_on_others(tmp_path):
    put(tmp_path, *(f"{label}/{i:02}.png" for label in ("tabby", "lynx") for i in range(20)))

    def tabbies():
        test = load_dataset(f"folder:{tmp_path}").test
        return [path for path, label in zip(test.images, test.labels, strict=True) if label == "tabby"]

    before = tabbies()
    shutil.rmtree(tmp_path / "lynx")
    assert tabbies() == before


@pytest.mark.parametrize("count", range(1, 30))
def test_the_split_takes_a_fifth_and_at_least_one(count):
    paths = [Path(f"{i}.png") for i in range(count)]
    train, test = split(paths, ["x"] * count, seed=0)
    expected = 0 if count == 1 else max(1, round(count * 0.2))
    assert len(test) == expected
    assert sorted([*train.images, *test.images]) == sorted(paths)


def test_a_class_may_be_called_train(tmp_path):
    put(tmp_path, "train/1.png", "train/2.png", "test/1.png", "test/2.png", "apple/1.png")
    assert load_dataset(f"folder:{tmp_path}").classes == ("apple", "test", "train")
    tree(tmp_path / "cifar", classes=("apple", "train"))
    assert load_dataset(f"folder:{tmp_path}/cifar").classes == ("apple", "train")


def test_folders_that_are_something_else(tmp_path):
    domains = tmp_path / "domains"
    for domain in ("photo", "sketch"):
        tree(domains / domain)
    with pytest.raises(InputError, match=rf"folders are domains, so use domains:{domains}"):
        load_dataset(f"folder:{domains}")
    with pytest.raises(InputError, match=rf"train and test, so use folder:{domains}/photo"):
        load_dataset(f"domains:{domains}/photo")
    with pytest.raises(InputError, match=rf"folders are classes, so use folder:{domains}/photo/train"):
        load_dataset(f"domains:{domains}/photo/train")
    for prefix in ("folder", "domains"):
        with pytest.raises(InputError, match=r"no (class|domain) folders\.\nExpected:\n  .*CLASS/IMAGE"):
            load_dataset(f"{prefix}:{domains}/photo/train/a")
        with pytest.raises(InputError, match=r"There is no folder '.*nowhere'"):
            load_dataset(f"{prefix}:{domains}/nowhere")


@pytest.mark.parametrize("empty", ["train", "test", "val"])
def test_half_a_split_is_no_classes(tmp_path, empty):
    root = tree(tmp_path)
    shutil.rmtree(root / ("train" if empty == "train" else "test"))
    with pytest.raises(InputError, match="in both a folder train and a folder test"):
        load_dataset(f"folder:{root}")
    (root / empty).mkdir()
    with pytest.raises(InputError, match="in both a folder train and a folder test"):
        load_dataset(f"folder:{root}")


def test_domains(tmp_path, no_decoding):
    for domain in ("sketch", "art", "cartoon"):
        tree(tmp_path / domain, train=3)
    dataset = load_dataset(f"domains:{tmp_path}")
    assert dataset.domains == ("art", "cartoon", "sketch")
    assert dataset.classes == ("a", "b")
    assert dataset.tasks == 3
    for part, name in ((dataset.train, "train"), (dataset.test, "test")):
        for path, label, domain in zip(part.images, part.labels, part.domains, strict=True):
            assert Path(path).relative_to(tmp_path).parts[:3] == (domain, name, label)
    assert Counter(dataset.train.domains) == dict.fromkeys(dataset.domains, 6)
    assert dataset.layout.endswith("/DOMAIN/{train,test}/CLASS")


def test_domains_without_a_split(tmp_path):
    for domain in ("x", "y"):
        put(tmp_path, *(f"{domain}/{label}/{i}.png" for label in "ab" for i in range(5)))
    dataset = load_dataset(f"domains:{tmp_path}", seed=1)
    assert Counter(zip(dataset.test.domains, dataset.test.labels, strict=True)) == {
        (domain, label): 1 for domain in "xy" for label in "ab"
    }
    assert load_dataset(f"domains:{tmp_path}", seed=1) == dataset
    (tmp_path / "z").mkdir()
    with pytest.raises(InputError, match="z' has no class folders"):
        load_dataset(f"domains:{tmp_path}")


def test_the_order_of_domains(tmp_path):
    for domain in ("x", "y", "z"):
        tree(tmp_path / domain)
    name = f"domains:{tmp_path}"
    dataset = load_dataset(name, order=["z", "x", "y"])
    assert dataset.domains == ("z", "x", "y")
    assert dataset.train == load_dataset(name).train
    with pytest.raises(UnknownNameError, match=r"Unknown domain 'w'\. Known: x, y, z"):
        load_dataset(name, order=["z", "w", "y"])
    with pytest.raises(InputError, match="leaves out: x, y"):
        load_dataset(name, order=["z"])
    with pytest.raises(InputError, match="names a domain twice"):
        load_dataset(name, order=["z", "x", "y", "z"])
    with pytest.raises(InputError, match="'digits' has no domains"):
        load_dataset("digits", order=["z"])
    assert load_dataset("digits-styles", order=[*digits_module.STYLES][::-1]).domains[0] == "outlined"


# CIFAR-100


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """Torchvision's files with a few images; their checksums are not the known ones."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    data = {
        "train": rng.integers(0, 256, (6, 3072), np.uint8),
        "test": rng.integers(0, 256, (3, 3072), np.uint8),
    }
    labels = {"train": [2, 0, 1, 1, 2, 0], "test": [0, 2, 1]}
    for part in data:
        (folder / part).write_bytes(pickle.dumps({"data": data[part], "fine_labels": labels[part]}))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", "baby", "train"]}))
    from torchvision.datasets import cifar as torchvision_cifar

    monkeypatch.setattr(torchvision_cifar, "check_integrity", lambda path, *_: Path(path).is_file())
    return folder, data


def test_cifar_in_torchvisions_files(cifar, no_decoding, monkeypatch):
    folder, data = cifar
    monkeypatch.chdir(folder)
    for where in (folder.parent, folder, "."):
        dataset = load_dataset("cifar100", where)
        assert dataset.classes == ("apple", "baby", "train")
        assert dataset.train.labels == ["train", "apple", "baby", "baby", "train", "apple"]
        assert dataset.test.labels == ["apple", "train", "baby"]
        assert dataset.layout == "cifar-100-python/{train,test,meta}"
    for image, row in zip(dataset.train.images, data["train"], strict=True):
        np.testing.assert_array_equal(image, np.moveaxis(row.reshape(3, 32, 32), 0, 2))


def test_the_fingerprint_of_arrays_in_torchvisions_files(cifar):
    folder, _ = cifar
    first = load_dataset("cifar100", folder.parent).fingerprint
    moved = folder.parent / "moved" / folder.name
    shutil.copytree(folder, moved)
    assert load_dataset("cifar100", moved).fingerprint == first


def test_cifar_files_that_are_damaged_or_missing(cifar, monkeypatch):
    folder, _ = cifar
    monkeypatch.undo()  # now the checksums count
    with pytest.raises(InputError, match=r"cannot be used \(Dataset not found or corrupted.*get cifar100"):
        load_dataset("cifar100", folder.parent)
    report = check_dataset("cifar100", folder.parent)
    assert not report.ok
    assert "corrupted" in report.problems[0]
    (folder / "meta").unlink()
    with pytest.raises(InputError, match="cifar-100-python' is there, but it has no file meta"):
        load_dataset("cifar100", folder.parent)


def test_cifar_is_downloaded_by_torchvision(cifar, tmp_path, monkeypatch):
    folder, _ = cifar
    from torchvision.datasets import cifar as torchvision_cifar

    fetched = []

    def fetch(url, root, **_):
        fetched.append(url)
        shutil.copytree(folder, Path(root) / "cifar-100-python")

    monkeypatch.setattr(torchvision_cifar, "download_and_extract_archive", fetch)
    new = tmp_path / "new" / "data"
    for _ in range(2):  # the second time it is there
        assert len(load_dataset("cifar100", new, download=True).train) == 6
    assert fetched == ["https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"]

    def offline(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(torchvision_cifar, "download_and_extract_archive", offline)
    with pytest.raises(InputError, match=r"could not be downloaded .*no network.*unpack it in '.*other'"):
        load_dataset("cifar100", tmp_path / "other", download=True)
    with pytest.raises(InputError, match="not found"):  # nobody can download this one
        load_dataset("cub200", tmp_path, download=True)


# Cars


@pytest.fixture
def cars(tmp_path):
    from scipy.io import savemat

    folder = tmp_path / "stanford_cars"
    fields = [("fname", object), ("class", object)]
    put(
        folder,
        "cars_train/2.jpg",
        "cars_train/1.jpg",
        "cars_train/3.jpg",
        "cars_test/1.jpg",
        "cars_test/2.jpg",
    )
    (folder / "devkit").mkdir()
    savemat(folder / "devkit/cars_meta.mat", {"class_names": np.array(["Audi", "BMW"], object)})
    train = np.array([("2.jpg", 1), ("1.jpg", 2), ("3.jpg", 1)], fields)
    savemat(folder / "devkit/cars_train_annos.mat", {"annotations": train})
    test = np.array([("1.jpg", 1), ("2.jpg", 2)], fields)
    savemat(folder / "cars_test_annos_withlabels.mat", {"annotations": test})
    return folder


def test_cars_in_torchvisions_files(cars, no_decoding):
    for where in (cars.parent, cars):
        dataset = load_dataset("cars196", where)
        assert dataset.classes == ("Audi", "BMW")
        assert names(dataset.train, cars) == ["cars_train/1.jpg", "cars_train/2.jpg", "cars_train/3.jpg"]
        assert dataset.train.labels == ["BMW", "Audi", "Audi"]
        assert dataset.test.labels == ["Audi", "BMW"]
        assert dataset.first == 16
        assert dataset.layout == "stanford_cars/{cars_train,cars_test}"


def test_cars_with_lists_missing_or_damaged(cars):
    (cars / "cars_test_annos_withlabels.mat").write_bytes(b"no list")
    with pytest.raises(
        InputError, match=r"lists of '.*stanford_cars' cannot be read .*Get these files again"
    ):
        load_dataset("cars196", cars.parent)
    (cars / "cars_test_annos_withlabels.mat").unlink()
    shutil.rmtree(cars / "cars_test")
    with pytest.raises(
        InputError, match=r"no file cars_test_annos_withlabels\.mat and no folder cars_test\."
    ) as e:
        load_dataset("cars196", cars.parent)
    assert "host is dead" in str(e.value)


# ImageNet-R


def lists(folder: Path, train: list[str], test: list[str]) -> None:
    for part, entries in (("train", train), ("test", test)):
        text = "".join(f"- data/imagenet-r/{entry}\n" for entry in entries)
        targets = "".join(f"- {i}\n" for i in range(len(entries)))
        (folder / f"imagenet-r_{part}.yaml").write_text(f"data:\n{text}targets:\n{targets}")


@pytest.mark.parametrize("inside", [False, True])
def test_the_official_archive_with_lists(tmp_path, inside, no_decoding):
    train = ["n02/toy_2.jpg", "n01/art_1.jpg", "n01/cartoon_1.jpg"]
    test = ["n02/misc_1.jpg", "n01/art_2.jpg"]
    root = put(tmp_path / "imagenet-r", *train, *test, "n01/not_listed.jpg", "README.txt")
    lists(root if inside else tmp_path, train, test)
    for data in (tmp_path, root):
        dataset = load_dataset("imagenet-r", data)
        assert dataset.classes == ("n01", "n02")
        assert names(dataset.train, root) == sorted(train)
        assert names(dataset.test, root) == sorted(test)
        assert dataset.train.labels == ["n01", "n01", "n02"]
        assert dataset.layout.startswith("imagenet-r/CLASS, split by imagenet-r_train.yaml")


def test_the_official_archive_alone_has_no_split(tmp_path):
    root = put(tmp_path / "imagenet-r", "n01443537/art_1.jpg", "n02/toy_1.jpg")
    for data in (tmp_path, root):
        with pytest.raises(InputError, match=r"it has no split: it is the official archive") as caught:
            load_dataset("imagenet-r", data)
        assert "imagenet-r_train.yaml and imagenet-r_test.yaml" in str(caught.value)
        assert "https://github.com/aimagelab/mammoth" in str(caught.value)
    (tmp_path / "imagenet-r_train.yaml").touch()
    with pytest.raises(InputError, match=r"and imagenet-r_test\.yaml must be next to it"):
        load_dataset("imagenet-r", tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "lists no images"),
        ("targets:\n- 1\n", "lists no images"),
        ("data:\n- 'cat.jpg'\n", r"Line 2 of '.*train\.yaml' must end in CLASS/IMAGE"),
    ],
)
def test_lists_that_are_none(tmp_path, text, reason):
    put(tmp_path / "imagenet-r", "n01/art_1.jpg", "n01/art_2.jpg")
    lists(tmp_path, ["n01/art_1.jpg"], ["n01/art_2.jpg"])
    (tmp_path / "imagenet-r_train.yaml").write_text(text)
    with pytest.raises(InputError, match=reason):
        load_dataset("imagenet-r", tmp_path)


def test_a_file_in_both_lists(tmp_path):
    put(tmp_path / "imagenet-r", "n01/art_1.jpg")
    lists(tmp_path, ["n01/art_1.jpg"], ["n01/art_1.jpg"])
    with pytest.raises(InputError, match=r"both for training and for testing: .*art_1\.jpg"):
        load_dataset("imagenet-r", tmp_path)


@pytest.mark.parametrize("archive", [False, True])
def test_styles_are_prefixes_of_file_names(tmp_path, archive, no_decoding):
    # A folder that has 'art', 'toy' and 'misc' in its name, and a class that is called like a style.
    data = tmp_path / "start" / "misc-toy-art"
    files = {
        part: [f"n0{i % 2}/{style}_{i}.jpg" for style in STYLES] for i, part in enumerate(("train", "test"))
    }
    files["train"] += ["n01/sketch_8.jpg", "n01/sketch_9.jpg"]
    if archive:
        put(data / "imagenet-r", *files["train"], *files["test"])
        lists(data, files["train"], files["test"])
    else:
        for part, entries in files.items():
            put(data / "imagenetr" / part, *entries)
    dataset = load_dataset("imagenet-r-domains", data)
    assert list(dataset.domains) == STYLES
    assert dataset.tasks == 15
    assert dataset.train.domains is not None
    for part in (dataset.train, dataset.test):
        assert [Path(path).name.split("_")[0] for path in part.images] == part.domains
    assert Counter(dataset.train.domains) == {**dict.fromkeys(STYLES, 1), "sketch": 3}
    art = [
        Path(p).name for p, d in zip(dataset.train.images, dataset.train.domains, strict=True) if d == "art"
    ]
    assert art == ["art_0.jpg"]
    plain = load_dataset("imagenet-r", data)
    assert plain.train.images == dataset.train.images
    assert plain.train.labels == dataset.train.labels


@pytest.mark.parametrize("name", ["cartoons_1.jpg", "painting1.jpg", "1.jpg", "Art_1.jpg", "my_art_1.jpg"])
def test_a_style_that_nobody_knows(tmp_path, name):
    put(tmp_path / "imagenetr", "train/n01/art_1.jpg", f"train/n01/{name}", "test/n01/art_2.jpg")
    with pytest.raises(InputError, match=rf"style of '.*{name}' is unknown: .*begin with one of sketch, art"):
        load_dataset("imagenet-r-domains", tmp_path)
    assert len(load_dataset("imagenet-r", tmp_path).train) == 2


def test_a_style_without_images(tmp_path):
    put(tmp_path / "imagenetr", "train/n01/art_1.jpg", "test/n01/art_2.jpg")
    with pytest.raises(InputError, match="no training images of the domains: sketch, cartoon"):
        load_dataset("imagenet-r-domains", tmp_path)


# S-DomainNet


DOMAINNET = ("real", "quickdraw", "painting", "sketch", "infograph", "clipart")


def domainnet(root: Path, train: int = 13, test: int = 3) -> Path:
    """Two classes whose numbers are not in the order of their letters' codes, listed in an odd order."""
    rng = np.random.default_rng(0)
    for domain in DOMAINNET:
        for part, count in (("train", train), ("test", test)):
            lines = [
                f"{domain}/{label}/{domain}_{part}_{i:06}.jpg {number}"
                for number, label in ((3, "zebra"), (4, "The_Eiffel_Tower"))
                for i in range(count)
            ]
            put(root, *(line.split()[0] for line in lines))
            rng.shuffle(lines)
            (root / f"{domain}_{part}.txt").write_text("\n".join(lines) + "\n\n")
    return root


@pytest.mark.parametrize("folder", ["domainnet", "DomainNet"])
def test_s_domainnet(tmp_path, folder, no_decoding):
    root = domainnet(tmp_path / folder)
    for data in (tmp_path, root):
        dataset = load_dataset("s-domainnet", data)
        assert dataset.domains == DOMAINNET
        assert dataset.classes == ("zebra", "The_Eiffel_Tower")
        expected = [
            f"{domain}/{label}/{domain}_train_{i:06}.jpg"
            for domain in DOMAINNET
            for label in dataset.classes
            for i in range(10)  # the first ten by name, whatever the order of the list
        ]
        assert names(dataset.train, root) == expected
        assert len(dataset.test) == 6 * 2 * 3
        for part in (dataset.train, dataset.test):
            for path, label, domain in zip(part.images, part.labels, part.domains, strict=True):
                assert Path(path).relative_to(root).parts[:2] == (domain, label)
    assert dataset.layout == f"{folder}/DOMAIN/CLASS, split by DOMAIN_{{train,test}}.txt"


def test_s_domainnet_with_parts_missing(tmp_path):
    root = domainnet(tmp_path / "domainnet", train=1, test=1)
    shutil.rmtree(root / "quickdraw")
    (root / "real_test.txt").unlink()
    with pytest.raises(InputError, match=r"no folder quickdraw and no list real_test\.txt\."):
        load_dataset("s-domainnet", tmp_path)
    for file in root.glob("*.txt"):
        file.unlink()
    with pytest.raises(InputError, match=r"no folder quickdraw and no list real_train.*, nor 9 more\."):
        load_dataset("s-domainnet", tmp_path)


@pytest.mark.parametrize("line", ["real/cat.jpg 0", "real/cat/1.jpg", "real/cat/1.jpg one"])
def test_s_domainnet_with_bad_lines(tmp_path, line):
    root = domainnet(tmp_path / "domainnet", train=1, test=1)
    (root / "real_train.txt").write_text(f"real/zebra/1.jpg 3\n{line}\n")
    with pytest.raises(InputError, match=rf"Line 2 of '.*real_train\.txt' must be .*{line}"):
        load_dataset("s-domainnet", tmp_path)


def test_s_domainnet_with_two_classes_of_one_number(tmp_path):
    root = domainnet(tmp_path / "domainnet", train=1, test=1)
    (root / "clipart_test.txt").write_text("clipart/lion/1.jpg 3\n")
    with pytest.raises(InputError, match="two classes the number 3: zebra and lion"):
        load_dataset("s-domainnet", tmp_path)


# CDDB


CDDB = ("gaugan", "biggan", "wild", "whichfaceisreal", "san")


def cddb(root: Path) -> Path:
    for domain in (*CDDB, "stylegan"):  # the last is not one of the hard ones
        between = "cat/" if domain == "wild" else ""
        for label in ("0_real", "1_fake"):
            put(
                root / domain,
                *(f"train/{between}{label}/{i}.png" for i in (1, 0)),
                f"val/{between}{label}/0.png",
            )
    return root


@pytest.mark.parametrize("folder", ["CDDB", "CDDB/CDDB", "cddb"])
def test_cddb(tmp_path, folder, no_decoding):
    root = cddb(tmp_path / folder)
    put(root, "gaugan/train/notes.txt", "CDDB-hard_val/readme.txt")
    for data in (tmp_path, root):
        dataset = load_dataset("cddb-hard", data)
        assert dataset.domains == CDDB
        assert dataset.classes == ("0_real", "1_fake")
        assert Counter(dataset.train.domains) == dict.fromkeys(CDDB, 4)
        assert Counter(dataset.test.domains) == dict.fromkeys(CDDB, 2)
        for part, name in ((dataset.train, "train"), (dataset.test, "val")):
            for path, label, domain in zip(part.images, part.labels, part.domains, strict=True):
                assert Path(path).relative_to(root).parts[:2] == (domain, name)
                assert Path(path).parent.name == label
    assert dataset.layout.endswith("/DOMAIN/{train,val}/{0_real,1_fake}")
    assert dataset.tasks == 5


def test_cddb_tests_on_val_also_where_there_is_a_folder_test(tmp_path):
    root = cddb(tmp_path / "CDDB")
    put(root, "wild/test/0_real/other.png", "wild/test/1_fake/other.png")
    assert not any("other.png" in str(path) for path in load_dataset("cddb-hard", tmp_path).test.images)


def test_cddb_with_parts_missing(tmp_path):
    root = cddb(tmp_path / "CDDB")
    shutil.rmtree(root / "wild")
    shutil.rmtree(root / "san/val")
    with pytest.raises(InputError, match="it has no domain wild and no folder san/val"):
        load_dataset("cddb-hard", tmp_path)
    cddb(tmp_path / "CDDB")
    for fakes in root.glob("*/train/**/1_fake"):
        shutil.rmtree(fakes)
    with pytest.raises(InputError, match="no training images of: 1_fake"):
        load_dataset("cddb-hard", tmp_path)


# Digits


def test_digits_are_scikit_learns_in_the_split_of_the_first_demo():
    dataset = load_dataset("digits", "no/such/folder")
    assert dataset.classes == tuple("0123456789")
    assert (dataset.tasks, dataset.layout) == (5, "built in")
    loaded = load_digits()
    train, test, train_labels, test_labels = train_test_split(
        np.round(loaded.images * (255 / 16)).astype(np.uint8),
        loaded.target,
        train_size=0.6,
        stratify=loaded.target,
        random_state=0,
    )
    for part, images, labels in ((dataset.train, train, train_labels), (dataset.test, test, test_labels)):
        assert [int(label) for label in part.labels] == labels.tolist()
        np.testing.assert_array_equal(part.images, images)
        assert {image.dtype for image in part.images} == {np.dtype(np.uint8)}


def test_digits_in_styles():
    dataset = load_dataset("digits-styles")
    assert len(dataset.domains) >= 5
    assert dataset.tasks == len(dataset.domains)
    assert (len(dataset.train), len(dataset.test)) == (1078, 719)
    for part, least in ((dataset.train, 18), (dataset.test, 12)):
        counts = Counter(zip(part.domains, part.labels, strict=True))
        assert len(counts) == len(dataset.domains) * 10
        assert min(counts.values()) >= least
        assert {(image.shape, image.dtype) for image in part.images} == {((32, 32, 3), np.dtype(np.uint8))}
    assert (
        load_dataset("digits-styles").fingerprint == dataset.fingerprint == "f0e4da5455115fb0394f9a14919cef21"
    )


def test_no_digit_is_in_two_styles_or_in_both_halves():
    train, test = digits_module.split_digits()
    assert sorted([*train.numbers, *test.numbers]) == list(range(1797))
    plain = load_dataset("digits")
    styled = load_dataset("digits-styles")
    assert plain.train.labels == styled.train.labels  # one for one: each digit once
    assert plain.test.labels == styled.test.labels
    for part, half in ((styled.train, train), (styled.test, test)):
        for i in range(0, len(part), 97):
            remade = digits_module.in_style(half.images[i], part.domains[i], half.numbers[i])
            np.testing.assert_array_equal(part.images[i], remade)


def test_styles_are_clearly_different():
    """Colour, contrast and texture alone tell the style of nearly every image."""
    dataset = load_dataset("digits-styles")

    def looks(part):
        pixels = np.stack(part.images).reshape(len(part), -1, 3).astype(float)
        return np.hstack([pixels.mean(1), pixels.std(1), np.abs(np.diff(pixels, axis=1)).mean(1)])

    train, test = looks(dataset.train), looks(dataset.test)
    means = {style: train[np.array(dataset.train.domains) == style].mean(0) for style in dataset.domains}
    guessed = [min(means, key=lambda style: np.linalg.norm(row - means[style])) for row in test]
    assert np.mean(np.array(guessed) == np.array(dataset.test.domains)) > 0.9


def test_digits_are_enlarged_as_linear_interpolation_does():
    image = np.random.default_rng(0).integers(0, 256, (8, 8), np.uint8)
    large = digits_module._enlarge(image)
    centres = (np.arange(32) + 0.5) / 4 - 0.5
    rows = np.stack([np.interp(centres, np.arange(8), column) for column in image.T.astype(float)], 1)
    expected = np.stack([np.interp(centres, np.arange(8), row) for row in rows])
    np.testing.assert_array_equal(large, np.floor(expected + 1e-9))


# Checks


def fake_source(monkeypatch, name: str, **facts):
    """A dataset with smaller numbers, so that a right one can be made here."""
    from dataclasses import replace

    source = replace(source_of(name), **facts)
    monkeypatch.setitem(DATASETS._factories, name, lambda: source)


def test_a_dataset_that_is_right(tmp_path, monkeypatch):
    root = tree(tmp_path / "cub")
    fake_source(
        monkeypatch, "cub200", classes=2, counts={"hers": (9, 9), "his": (4, 2), "test only": (None, 2)}
    )
    report = check_dataset("cub200", tmp_path, progress=False)
    assert report.ok
    assert report.problems == ()
    assert (report.classes, report.train, report.test) == (2, 4, 2)
    assert report.matches == "his and test only"
    assert report.folder == root
    assert report.layout == "cub/{train,test}/CLASS"
    assert report.to_dict()["ok"] is True
    assert report.to_dict()["folder"] == str(root)


@pytest.mark.parametrize("counts", [(5981, 1519), (6056, 1419)])
def test_either_of_two_counts_is_right_and_named(counts, monkeypatch):
    train, test = (
        Part([np.zeros((1, 1), np.uint8)] * count, [str(i % 200) for i in range(count)]) for count in counts
    )
    contents = Contents(tuple(sorted(map(str, range(200)))), train, test)
    fake_source(monkeypatch, "imagenet-a", build=lambda: contents)
    report = check_dataset("imagenet-a")
    assert report.ok
    assert (
        report.matches
        == {5981: "Zhou et al.'s zip, inferred from logs", 6056: "the paper's Table 6"}[counts[0]]
    )


def problems(report: Report) -> str:
    assert not report.ok
    assert all(problem.endswith(".") for problem in report.problems)
    return "\n".join(report.problems)


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    root = tree(tmp_path / "cub", classes=("a", "b", "c"))
    shutil.rmtree(root / "train/c")
    shutil.rmtree(root / "test/b")
    (root / "train/empty").mkdir()
    put(root, "train/a/notes.txt", content=b"no image")
    put(root, "train/a/half.png", content=PNG[:45])
    put(root, "test/a/nothing.png", content=b"")
    found = check_dataset("cub200", tmp_path)
    text = problems(found)
    assert "no training images of: c." in text
    assert "no test images of: b." in text
    assert "train' that are empty: empty." in text
    assert "There are 3 classes, but CUB-200 has 200." in text
    assert "6 training and 3 test images" in text
    assert "9,430 training and 2,358 test images (Zhou et al.'s zip, inferred from logs)" in text
    assert "5,994 training and 5,794 test images (the standard split)" in text
    assert "notes.txt': it is not an image" in text
    assert "half.png': it is damaged" in text
    assert "nothing.png': it is empty (0 bytes)" in text
    assert found.matches is None
    assert len(found.problems) == 8


def test_a_dataset_that_cannot_even_be_listed(tmp_path):
    root = tree(tmp_path / "cub")
    shutil.rmtree(root / "test")
    (root / "test").mkdir()
    report = check_dataset("cub200", tmp_path)
    assert "no class folders" in problems(report)
    assert (report.folder, report.layout, report.train) == (root, "cub", 0)


def test_names_that_can_be_no_labels_are_reported(tmp_path, layup, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tree(tmp_path / "photos", classes=("a", "b"))
    for odd in (os.fsdecode(b"caf\xe9"), "\x1b[2J"):
        put(root, f"train/{odd}/1.png", f"test/{odd}/2.png", content=PNG)
    text = problems(check_dataset(f"folder:{root}"))
    assert "caf\\udce9': this folder's name" in text
    assert "x1b[2J': this folder's name" in text
    assert not has_controls(text.replace("\n", ""))
    assert layup("datasets", "check", f"folder:{root}").code == 1
    done = layup("run", "--dataset", f"folder:{root}", "--method", "nmc", "--backbone", "vit-nano")
    assert done.code == 1
    assert "cannot be a label" in done.err


def test_listed_files_that_are_not_there(tmp_path):
    root = domainnet(tmp_path / "domainnet", train=1, test=1)
    (root / "real/zebra/real_test_000000.jpg").unlink()
    text = problems(check_dataset("s-domainnet", tmp_path))
    assert "real_test_000000.jpg': there is no such file." in text


def test_sizes_by_style_are_known_for_the_lists_only(tmp_path, monkeypatch):
    train = [f"n01/{style}_{i}.jpg" for style in STYLES for i in range(2)]
    test = [f"n01/{style}_9.jpg" for style in STYLES]
    put(tmp_path / "imagenet-r", *train, *test)
    lists(tmp_path, train, test)
    text = problems(check_dataset("imagenet-r-domains", tmp_path))
    assert "The domain 'art' has 2 training and 1 test images, but should have 1,239 training" in text
    assert text.count("CODA-Prompt's lists, style by style") == 15
    from dataclasses import replace

    zipped, listing = source_of("imagenet-r-domains").ways
    small = replace(listing, by_domain={"these lists": dict.fromkeys(STYLES, (2, 1))})
    fake_source(monkeypatch, "imagenet-r-domains", classes=1, counts={"x": (30, 15)}, ways=(zipped, small))
    report = check_dataset("imagenet-r-domains", tmp_path)
    assert report.ok
    assert report.matches == "x and these lists"
    assert report.domains["toy"] == (2, 1)


def test_a_domain_without_test_images(tmp_path):
    for domain in ("x", "y"):
        put(tmp_path, f"{domain}/a/1.png")
    text = problems(check_dataset(f"domains:{tmp_path}"))
    assert "no test images of the domain 'x'." in text


def test_folders_of_ones_own_are_checked(tmp_path):
    put(tmp_path, *(f"{label}/{i}.png" for label in "ab" for i in range(3)), "single/1.png")
    report = check_dataset(f"folder:{tmp_path}")
    assert report.ok
    assert report.matches is None
    assert report.known == {}
    (tmp_path / "empty").mkdir()
    put(tmp_path, "a/bad.png", content=b"?")
    assert len(check_dataset(f"folder:{tmp_path}").problems) == 2


def test_built_in_datasets_are_right():
    for name in ("digits", "digits-styles"):
        report = check_dataset(name)
        assert report.ok
        assert report.folder is None
        assert report.to_dict()["folder"] is None
    assert list(report.to_dict()["domains"]) == list(digits_module.STYLES)


# Real images, where they are


SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not (SHARED / "pacs-subset.tar").exists(), reason="the shared images are not here")
def test_pacs(tmp_path):
    import tarfile

    with tarfile.open(SHARED / "pacs-subset.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    dataset = load_dataset(
        f"domains:{tmp_path}/pacs-subset", order=["photo", "sketch", "cartoon", "art_painting"]
    )
    assert dataset.domains[0] == "photo"
    assert (len(dataset.classes), len(dataset.train), len(dataset.test)) == (7, 1400, 700)
    assert Counter(dataset.train.domains) == dict.fromkeys(dataset.domains, 350)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_held_out_images_are_training_images_of_every_class_and_domain(share):
    whole = load_dataset("digits-styles")
    cut = whole.held_out(share)
    key = [id(image) for image in whole.train.images]
    assert sorted(id(image) for image in (*cut.train.images, *cut.test.images)) == sorted(key)
    groups = Counter(zip(whole.train.labels, whole.train.domains, strict=True))
    assert Counter(zip(cut.test.labels, cut.test.domains, strict=True)) == {
        group: round(share * count) for group, count in groups.items()
    }
    assert cut.fingerprint != whole.fingerprint
    assert cut.held_out(share).test.labels != cut.test.labels


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_impossible_shares_are_refused(share):
    with pytest.raises(InputError, match=r"held-out share of .* is impossible"):
        load_dataset("digits").held_out(share)
