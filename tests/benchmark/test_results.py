"""Records come back as they were written, and what is not one is a sentence."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from fake_records import fake_record
from layup.benchmark.results import SCHEMA, Record, find_records, run_name
from layup.errors import DamagedFileError, InputError, NewerFormatError, StorageError
from layup.formats import has_controls


@pytest.fixture
def record():
    return fake_record()


def test_a_record_comes_back_as_it_was(record, tmp_path):
    record.write(tmp_path / "r.json")
    again = Record.read(tmp_path / "r.json")
    assert again == record
    again.write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "r.json").read_bytes()


def test_names_of_all_kinds_come_back(tmp_path):
    """A folder's name need not be UTF-8, and may command a terminal."""
    record = fake_record(dataset="folder:caf\udce9\x9b2J\u202e é")
    record.write(tmp_path / "r.json")
    assert Record.read(tmp_path / "r.json") == record
    assert not has_controls((tmp_path / "r.json").read_text("utf-8").replace("\n", ""))


def test_the_file_is_plain_json_with_numbers_by_name(record, tmp_path):
    record.write(tmp_path / "r.json")
    values = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert values["schema"] == SCHEMA
    assert values["matrix"][0][1] is None  # not NaN, which is no JSON
    assert values["summary"]["average_accuracy"] == pytest.approx(np.mean(values["matrix"][-1]))
    assert len(values["test"]["predictions"]) == len(values["test"]["truth"])


def test_the_matrix_agrees_with_the_last_predictions(record):
    right = np.array(record.truth) == np.array(record.predictions)
    tasks = np.array(record.test_tasks)
    assert record.matrix[-1] == pytest.approx([right[tasks == t].mean() for t in range(3)])
    assert np.isnan(record.matrix[0, 1:]).all()
    assert record.test_sizes == [12, 12, 12]


def test_in_dil_all_domains_are_asked():
    assert not np.isnan(fake_record(setting="dil").matrix).any()


def test_an_unfinished_record_has_no_summary(tmp_path):
    record = fake_record(finished=False)
    assert not record.finished
    record.write(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["summary"] is None
    assert Record.read(tmp_path / "r.json") == record
    with pytest.raises(InputError, match="not finished: 2 of 3 tasks"):
        find_records([tmp_path / "r.json"])


def test_names_are_readable_and_differ_with_anything_that_decides_numbers(record):
    assert record.name.startswith("digits-cil-layup-T3-s1993-")
    others = [fake_record(seed=7), fake_record(options={"k": 6}), fake_record(preset="paper")]
    assert len({record.name, *(other.name for other in others)}) == 4
    assert "/" not in run_name({"dataset": "a/b:c d/é*", "method": "x y"})


def test_records_are_found_in_files_and_folders(tmp_path):
    for seed in (1, 2):
        fake_record(seed=seed).write(tmp_path / f"{seed}.json")
    fake_record(finished=False, seed=3).write(tmp_path / "3.json")
    (tmp_path / "other.json").write_text('{"not": "a record"}')
    (tmp_path / "notes.txt").write_text("not a record")
    assert [found.run["seed"] for found in find_records([tmp_path])] == [1, 2]
    assert [found.run["seed"] for found in find_records([tmp_path / "2.json"])] == [2]


def test_what_is_no_record_does_not_stop_the_others(record, tmp_path, caplog):
    record.write(tmp_path / "r.json")
    (tmp_path / "deep.json").write_text(DEEP)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "link.json").symlink_to("nowhere")
    (tmp_path / "loop.json").symlink_to("loop.json")
    os.mkfifo(tmp_path / "pipe.json")
    assert find_records([tmp_path]) == [record]
    skipped = [message for message in caplog.messages if message.startswith("Skipped: ")]
    named = [name for name in ("bytes", "deep", "folder", "link", "loop", "pipe") if name in str(skipped)]
    assert len(named) == len(skipped) == 6


def test_a_pipe_is_no_record(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(DamagedFileError, match="a device or a pipe, not a file"):
        find_records([tmp_path / "pipe.json"])


@pytest.mark.parametrize(
    "where", [[], ["run"], ["versions"], ["test"], ["tasks", 0], ["steps", 0], ["machine"]]
)
@pytest.mark.parametrize("value", [3, "text", [], [[]], {}, True, 1e999])
def test_a_record_of_the_wrong_kinds_is_refused_or_harmless(where, value, record, tmp_path, caplog):
    values = record.to_dict()
    if where:
        damage(values, where, value)
    else:
        values = value
    (tmp_path / "r.json").write_text(json.dumps(values))
    try:
        found = Record.read(tmp_path / "r.json")
    except DamagedFileError:
        return
    assert found.name
    assert found.summary


def test_a_folder_without_records(tmp_path):
    with pytest.raises(InputError, match="no record of a finished run"):
        find_records([tmp_path])


def test_a_record_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="There is no record"):
        find_records([tmp_path / "r.json"])
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Cannot read"):
        Record.read(tmp_path / "file" / "r.json")


@pytest.mark.parametrize("where", ["file", "folder"])
def test_a_record_of_a_later_layup(where, record, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps({**record.to_dict(), "schema": SCHEMA + 1}))
    with pytest.raises(NewerFormatError, match="Update layup"):
        find_records([tmp_path if where == "folder" else tmp_path / "r.json"])


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '{"schema": 1}', "\x00", '"text"', DEEP])
def test_what_is_not_a_record(text, tmp_path):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(DamagedFileError, match="not the record of a run, or is damaged"):
        Record.read(tmp_path / "r.json")


def damage(values, where, value):
    """Put a value at a path deep in a record."""
    *above, last = where
    inner = values
    for name in above:
        inner = inner[name]
    if value is None:
        del inner[last]
    else:
        inner[last] = value


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (["run"], None),
        (["test"], None),
        (["test", "truth", 0], 99),
        (["test", "truth", 0], -1),
        (["test", "predictions", 0], 6),
        (["test", "task", 0], 3),
        (["test", "predictions"], [0]),
        (["test", "truth", 0], "cat"),
        (["matrix", 0], [0.5]),
        (["matrix"], [[0.5, 0.5, 0.5]]),
        (["tasks"], [{"name": "x"}]),
        (["tasks"], []),
        (["steps", 0, "learn_seconds"], None),
        (["steps", 0, "unheard of"], 5),
    ],
)
def test_a_record_whose_parts_do_not_belong_together(where, value, record, tmp_path):
    values = record.to_dict()
    damage(values, where, value)
    (tmp_path / "r.json").write_text(json.dumps(values))
    with pytest.raises(DamagedFileError, match="damaged"):
        Record.read(tmp_path / "r.json")
