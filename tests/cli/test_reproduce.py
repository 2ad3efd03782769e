"""`layup reproduce` on the command line: items, forecasts, pages, and errors."""

from __future__ import annotations

import re

import pytest

from layup.reproduction.plan import ITEMS
from photos import write_photos


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """photos/{train,test}/CLASS with a few digits, and a cache of their features."""
    folder = tmp_path_factory.mktemp("shelf")
    for part, count, start in (("train", 4, 0), ("test", 3, 100)):
        write_photos(folder / "data" / "photos" / part, dict.fromkeys(range(4), count), start)
    return folder


@pytest.fixture
def here(shelf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAYUP_CACHE", str(shelf / "cache"))
    monkeypatch.delenv("LAYUP_DATA", raising=False)
    return tmp_path


def test_without_a_name_it_lists_what_there_is(ok):
    listed = ok("reproduce").out
    assert all(name in listed for name in (*ITEMS, "claims", "all"))


@pytest.mark.slow
def test_an_item_is_run_once_and_shown_next_to_the_paper(ok, here, shelf):
    command = ("reproduce", "figure2", "--quick", "--data", shelf / "data")
    first = ok(*command)
    assert "ridge, bundled, layer 1 … 17" in first.err
    assert "ridge, vit-nano, layer 1 … 12" in first.err
    assert first.err.count("finished") == 2
    assert "bundled" in first.out
    assert "32 %" in first.out  # what the paper says of it
    page, text = here / "reproduction/reproduction.html", here / "reproduction/reproduction.md"
    assert "Figure 2" in page.read_text()
    assert "data:image/svg+xml" in page.read_text()
    assert "figures/figure2.png" in text.read_text()
    for ending in ("png", "svg"):
        assert (here / f"reproduction/figures/figure2.{ending}").stat().st_size > 10_000
    assert len(list((here / "results").glob("*.json"))) == 17 + 12
    written = text.read_text()
    again = ok(*command)
    assert again.err.count("finished before") == 2
    assert text.read_text() == written


@pytest.mark.slow
def test_a_dry_run_only_says_what_there_is_to_do(ok, here, shelf):
    result = ok("reproduce", "table3", "--quick", "--data", shelf / "data", "--dry-run")
    assert re.search(r"\d+ of \d+ runs are to be done, 0 cannot be", result.out)
    assert "sequential" in result.out
    assert not (here / "results").exists()
    assert not (here / "reproduction").exists()


def test_a_page_of_what_is_finished_runs_nothing(ok, here, shelf):
    result = ok("reproduce", "table5", "--quick", "--data", shelf / "data", "--finished", "--report", "page")
    assert "It has not been run." in result.out
    assert not list((here / "results").glob("*.json"))
    assert "It has not been run." in (here / "page/reproduction.md").read_text()


def test_what_is_not_on_disk_leaves_cells_that_say_so(ok, here):
    (here / "nothing").mkdir()
    result = ok("reproduce", "table1", "table6", "--data", "nothing")
    assert "The dataset 'cub200' (" in result.out
    page = (here / "reproduction/reproduction.md").read_text()
    layup = next(line for line in page.splitlines() if line.startswith("| LayUP |"))
    assert "paper 92.0" in layup
    assert not re.search(r"\d \[", layup)  # none of our own


def test_a_network_of_ones_own_takes_the_place_of_the_plain_one(ok, here, shelf):
    ok(
        *("reproduce", "table6", "--quick", "--data", shelf / "data"),
        *("--backbone", "test_vit", "--weights", "nowhere.safetensors", "--input-size", "64"),
    )
    assert "test_vit for IN1K" in (here / "reproduction/reproduction.md").read_text()


def test_methods_can_be_left_out(ok, here, shelf):
    result = ok(
        *("reproduce", "complexity", "--quick", "--data", shelf / "data", "--finished"),
        *("--without", "slca", "--without", "adam"),
    )
    assert "'slca' is left out." in result.out
    assert "adam is left out" in (here / "reproduction/reproduction.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("tabel1",), "Did you mean 'table1'"),
        (("table1", "--quick", "--local"), "Give --quick or --local, not both"),
        (("table1", "--quick", "--without", "layupp"), "Did you mean 'layup'"),
        (("table1", "--local", "--data", "nowhere"), "There is no folder 'nowhere'"),
        (("table1", "--local", "--data", "nowhere"), "Give --data DIR"),
        (("table1", "--quick", "--weights", "x.safetensors"), "give that as well"),
        (("table1", "--quick", "--preset", "papr", "--dry-run"), "Did you mean 'paper'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(refused, here, arguments, says):
    refused("reproduce", *arguments, says=[says])


def test_a_source_that_is_not_there_is_refused_before_anything_is_run(layup, here):
    result = layup("reproduce", "figure4", "--quick", "--source", "folder:nowhere")
    assert result.code == 1
    assert "no folder 'nowhere'" in result.err
    assert not (here / "results").exists()
