"""`layup shards`, `learn --shard` and `merge` of a plan on the command line."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from layup import load
from layup.sharding import AgainError, Plan, left, union
from photos import name, write_photos

ANY_WARNING = pytest.mark.filterwarnings("ignore")
"""Ray has its own."""


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(Path("photos"), {0: 7, 1: 5, 2: 4})
    return tmp_path


@pytest.fixture
def planned(photos, ok):
    return ok("shards", "photos", "--to", "plan", "--size", 6, "--backbone", "vit-nano").out


def hash_of(ok, model):
    return json.loads(ok("info", model, "--json").out)["state_hash"]


def test_slices_merge_into_the_model_of_one_machine(planned, ok):
    assert "16 photos in 3 slices, from 0 to 2: plan" in planned
    for number in (2, 0, 1):
        told = ok("learn", "--shard", "plan", number).out
        assert f"Slice {number}: " in told
        assert "plan/shard-" in told
    told = ok("merge", "plan", "--to", "m.layup").out
    assert "3 classes from 16 photos" in told
    ok("learn", "photos", "--to", "one.layup", "--backbone", "vit-nano")
    assert f"State hash: {hash_of(ok, 'one.layup')}" in told
    assert hash_of(ok, "m.layup") == hash_of(ok, "one.layup")
    ok("learn", "photos", "--to", "m.layup")  # which knows them all
    assert hash_of(ok, "m.layup") == hash_of(ok, "one.layup")


def test_what_is_missing_and_what_is_wrong_is_one_sentence(planned, ok, refused):
    ok("learn", "--shard", "plan", 1)
    refused("merge", "plan", "--to", "m.layup", says=["2 of 3 slices", "0, 2"])
    refused("learn", "--shard", "plan", 9, says=["no slice 9"])
    refused("learn", "--shard", "photos", 0, says=["'photos' is no plan"])
    refused("merge", "photos", "--to", "m.layup", says=["'photos' is no plan"])
    refused("learn", says=["--to"])
    assert not Path("m.layup").exists()


def test_what_is_left_out_of_a_plan_is_remarked(photos, ok, refused):
    Path("photos/empty").mkdir()
    told = ok("shards", "photos", "--to", "plan", "--backbone", "vit-nano").err
    assert "Without photos: 1 class folder in 'photos': empty." in told
    refused("shards", "nowhere", "--to", "none", says=["no folder 'nowhere'"])
    assert not Path("none").exists()


@pytest.mark.parametrize("option", ["--again", "--relabel", "--strict", "--per-class"])
def test_what_a_plan_cannot_do_is_said(planned, refused, option):
    refused("learn", "--shard", "plan", 0, option, says=["--shard", option])
    refused("learn", "photos", "--to", "m.layup", "--ray", option, says=["--ray", option])


def test_a_plan_is_not_overwritten_nor_a_model(planned, ok, refused):
    refused("shards", "photos", "--to", "plan", "--backbone", "vit-nano", says=["holds another plan"])
    for number in range(3):
        ok("learn", "--shard", "plan", number)
    ok("merge", "plan", "--to", "m.layup")
    refused("merge", "plan", "--to", "m.layup", says=["exists already"])
    ok("merge", "plan", "--to", "m.layup", "--overwrite")


@pytest.mark.slow
@ANY_WARNING
def test_ray_gives_the_model_of_one_machine(local, photos, ok, refused):
    told = ok("learn", "photos", "--to", "m.layup", "--backbone", "vit-nano", "--ray", "--slice-size", 6).out
    ok("learn", "photos", "--to", "one.layup", "--backbone", "vit-nano")
    assert f"State hash: {hash_of(ok, 'one.layup')}" in told
    assert not Path("m.layup.plan").exists()
    write_photos(Path("photos"), {1: 3, 3: 2}, start=40)
    Path("photos", name(1), "bad.jpg").write_bytes(b"no image")
    told = ok("learn", "photos", "--to", "m.layup", "--ray", "--slice-size", 2)
    assert "5 new, 16 known." in told.out
    assert "Skipped" in told.err
    assert "bad.jpg" in told.err
    ok("learn", "photos", "--to", "one.layup")
    assert f"State hash: {hash_of(ok, 'one.layup')}" in told.out
    assert hash_of(ok, "m.layup") == hash_of(ok, "one.layup")
    Path("photos", name(1), "bad.jpg").unlink()
    assert "0 new, 21 known." in ok("learn", "photos", "--to", "m.layup", "--ray").out
    Path("again", name(2)).mkdir(parents=True)
    shutil.copy(Path("photos", name(0), "000.png"), Path("again", name(2)))
    assert "1 photo known as another class" in ok("learn", "again", "--to", "m.layup", "--ray").err
    refused("learn", "photos", "--to", "m.layup", "--ray", "--k", 3, says=["was made with --k", "not 3"])


def test_a_cluster_that_is_not_there_is_one_sentence(photos, refused, monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # whatever other tests have started
    command = ("learn", "photos", "--to", "m.layup", "--backbone", "vit-nano", "--address", "127.0.0.1:9")
    refused(*command, says=["No Ray cluster can be reached at '127.0.0.1:9'"])
    assert not Path("m.layup").exists()


def test_lambda_is_searched_in_rounds(photos, ok, refused):
    ok("shards", "photos", "--to", "plan", "--size", 8, "--lam", "search", "--backbone", "vit-nano")
    for number in range(2):
        ok("learn", "--shard", "plan", number)
    refused("merge", "plan", "--to", "m.layup", says=["λ is searched on all photos", "predict right: 0, 1."])
    assert "Slice 0: counted what 16 values of λ" in ok("learn", "--shard", "plan", 0).out
    refused("merge", "plan", "--to", "m.layup", says=["predict right: 1."])
    plan = Plan.read("plan")
    while (numbers := left(plan)) or not _united(plan):
        for number in numbers:
            ok("learn", "--shard", "plan", number)
    ok("merge", "plan", "--to", "m.layup")
    ok("learn", "photos", "--to", "one.layup", "--backbone", "vit-nano", "--lam", "search")
    assert hash_of(ok, "m.layup") == hash_of(ok, "one.layup")
    assert load("m.layup").lambda_ == load("one.layup").lambda_


def _united(plan):
    """Whether a merge needs no further round; if it does, that is open now."""
    try:
        union(plan)
    except AgainError:
        return False
    return True


def test_bad_photos_are_remarked(photos, ok):
    Path("photos", name(1), "bad.jpg").write_bytes(b"no image")
    ok("shards", "photos", "--to", "plan", "--backbone", "vit-nano")
    told = ok("learn", "--shard", "plan", 0)
    assert "bad.jpg" in told.err
    assert "bad.jpg" in ok("merge", "plan", "--to", "m.layup").err


def test_an_archive_can_be_planned(photos, ok):
    with tarfile.open("photos.tar", "w") as tar:
        tar.add("photos", "photos")
    ok("shards", "photos.tar", "--to", "plan", "--size", 9, "--backbone", "vit-nano")
    for number in range(2):
        ok("learn", "--shard", "plan", number)
    ok("merge", "plan", "--to", "m.layup")
    ok("learn", "photos", "--to", "one.layup", "--backbone", "vit-nano")
    assert hash_of(ok, "m.layup") == hash_of(ok, "one.layup")


def test_addresses_are_allowed_by_each_command(photos, ok, refused):
    paths = sorted(Path("photos").rglob("*.png"))
    lines = [f"file://{path.absolute()},{path.parent.name}" for path in paths]
    Path("list.csv").write_text("\n".join(["path,label", *lines]))
    first = lines[0].partition(",")[0]
    plan = ("shards", "list.csv", "--to", "plan", "--backbone", "vit-nano")
    refused(*plan, says=["line 2", "is an address. Nothing is fetched", "The option is --allow-addresses."])
    ok(*plan, "--allow-addresses")
    ok("learn", "--shard", "plan", 0)  # a file's address is its path
    ok("merge", "plan", "--to", "m.layup")
    learn = ("learn", "list.csv", "--to", "one.layup", "--backbone", "vit-nano")
    refused(*learn, says=["The option is --allow-addresses."])
    refused(*learn, "--ray", "--allow-addresses", says=["With --ray, no photos are fetched"])
    ok(*learn, "--allow-addresses")
    assert hash_of(ok, "m.layup") == hash_of(ok, "one.layup")
    refused("predict", "m.layup", first, says=["The option is --allow-addresses."])
    assert paths[0].parent.name in ok("predict", "m.layup", first, "--allow-addresses").out
    refused("evaluate", "m.layup", "list.csv", says=["The option is --allow-addresses."])
    ok("evaluate", "m.layup", "list.csv", "--allow-addresses")


def test_a_slice_of_addresses_is_fetched_if_that_is_allowed(photos, ok, refused):
    store = pytest.importorskip("fsspec", reason="fsspec is not installed").filesystem("memory")
    for path in Path("photos").rglob("*.png"):
        store.pipe_file(f"memory://{path}", path.read_bytes())
    rows = [f"memory://{path},{path.parent.name}" for path in sorted(Path("photos").rglob("*.png"))]
    Path("list.csv").write_text("\n".join(["path,label", *rows]))
    ok("shards", "list.csv", "--to", "plan", "--backbone", "vit-nano", "--allow-addresses")
    refused("learn", "--shard", "plan", 0, says=["slice-00000.csv", "The option is --allow-addresses."])
    assert "16 photos" in ok("learn", "--shard", "plan", 0, "--allow-addresses").out
    ok("merge", "plan", "--to", "m.layup")
    ok("learn", "photos", "--to", "one.layup", "--backbone", "vit-nano")
    assert hash_of(ok, "m.layup") == hash_of(ok, "one.layup")
    store.store.clear()
