"""Many images are read in order, by any number of processes; none is left when one is killed or stops."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from layup.errors import BadImageError, LayupError
from layup.features.reader import AHEAD, FEW, BadImage, in_batches, read_ahead, usable, worker_count
from layup.images import open_image
from photos import crops

PATHS = ("a.jpg",)  # not opened
BATCHES = [[index] for index in range(60)]


class Sizes:
    """So many bytes for each batch."""

    def __init__(self, size):
        self.size = size

    def __call__(self, indices):
        return bytes(self.size)


@pytest.fixture
def files(tmp_path):
    paths = []
    for index, image in enumerate(crops(40)):
        paths.append(tmp_path / f"{index:03}.png")
        Image.fromarray(image).save(paths[-1])
    return paths


def children():
    return set(multiprocessing.active_children())


# In order


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_batches_come_in_the_order_asked(workers):
    def slowly(indices):
        time.sleep(0.02 * (indices[0] % 3))
        return indices

    batches = in_batches([7, 3, 5, 0, 2, 9, 1, 8, 4], 2)
    assert list(read_ahead(PATHS, slowly, batches, workers)) == batches


def test_more_workers_than_cores_or_batches_are_no_news():
    many = (os.cpu_count() or 1) + 1
    assert list(read_ahead(PATHS, list, [[0], [1]], many)) == [[0], [1]]
    assert list(read_ahead(PATHS, list, [], many)) == []


def test_arrays_come_as_they_were_made_and_can_be_written():
    def made(indices):
        return {"pixels": np.full((3, 500, 400), indices[0] / 7, np.float32), "none": np.zeros((0, 3))}

    for index, found in enumerate(read_ahead(PATHS, made, BATCHES[:5], 2)):
        np.testing.assert_array_equal(found["pixels"], made([index])["pixels"])
        assert found["none"].shape == (0, 3)
        found["pixels"] += 1


def test_only_so_much_is_read_ahead(tmp_path):
    def note(indices):
        (tmp_path / str(indices[0])).touch()

    stream = read_ahead(PATHS, note, BATCHES, 2)
    for _ in range(3):
        next(stream)
    time.sleep(0.3)
    assert 3 <= len(list(tmp_path.iterdir())) <= 3 + 2 * AHEAD
    stream.close()


def test_torch_computes_in_the_processes_whatever_was_computed_before():
    """The threads of a forked process are gone: it would wait for them."""

    def multiplied(indices):
        values = torch.rand(256, 256)
        return (values @ values).softmax(1).sum().item()

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        multiplied([0])
        assert len(list(read_ahead(PATHS, multiplied, BATCHES, 2))) == len(BATCHES)
    finally:
        torch.set_num_threads(threads)


BEGUN = """
import multiprocessing, sys
from layup.features.reader import read_ahead
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    print(list(read_ahead(["a.jpg"], max, [[4, 2], [1], [3, 5]], 2)), multiprocessing.active_children())
"""


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_processes_begin_in_every_way_that_python_has(way, tmp_path):
    """Some systems cannot fork; and Python does so only on request, from 3.14 on."""
    (tmp_path / "script.py").write_text(BEGUN)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", way],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("[4, 1, 5] []\n", "")


# How many processes


def test_files_of_many_photos_are_decoded_by_several_processes(files):
    assert len(files) <= FEW
    assert worker_count(files) == 0
    assert worker_count(files * 4) == min(4, os.cpu_count())
    assert worker_count(crops(3) * 100) == 0
    assert worker_count(files * 4, 1) == worker_count(crops(3), 1) == 1


def test_open_files_are_read_by_one_process(files):
    """Processes share the position in a file where the next one reads."""
    with files[0].open("rb") as file:
        assert worker_count([*files * 4, file]) == worker_count([*files * 4, file], 2) == 0


# What goes wrong


def test_images_that_cannot_be_used_are_told_apart(files):
    files[1].write_text("Dear diary")
    made, bad = usable([2, 1, 0], lambda index: open_image(files[index]).size)
    assert list(made) == [2, 0]
    assert [each.index for each in bad] == [1]
    assert isinstance(bad[0], BadImage)
    assert "001.png': it is not an image" in bad[0].reason


def read_with_a_killed_worker(size, moment):
    """Read on after one of two workers was killed."""
    others = children()
    stream = read_ahead(PATHS, Sizes(size), BATCHES, 2)
    for _ in range(moment):
        next(stream)
    time.sleep(0.2)  # until nothing more can be sent
    worker = (children() - others).pop()
    os.kill(worker.pid, signal.SIGKILL)
    for _ in range(20):  # what is computed meanwhile: nothing may be raised here
        time.sleep(0.01)
    list(stream)


@pytest.mark.parametrize("moment", [1, 3, 20])
@pytest.mark.parametrize("size", [10, 5_000_000], ids=["whole", "half"])
def test_a_worker_killed_while_computing_is_noticed_when_reading_on(size, moment):
    """With large batches it is killed amid sending one: the rest of that would be waited for."""
    others = children()
    with pytest.raises(LayupError, match=r"decodes images was killed.*workers=0"):
        read_with_a_killed_worker(size, moment)
    assert children() <= others


def test_a_worker_killed_before_it_has_read_anything_is_noticed():
    def die(indices):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(LayupError, match=r"decodes images was killed.*workers=0"):
        list(read_ahead(PATHS, die, BATCHES, 2))


def test_a_worker_that_ends_itself_has_failed():
    with pytest.raises(LayupError, match=r"decodes images failed.*workers=0"):
        list(read_ahead(PATHS, lambda _: os._exit(3), BATCHES, 1))


def test_a_killed_worker_of_another_thread_is_noticed_there():
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(read_with_a_killed_worker, 5_000_000, 2)
        while not reading.done():
            time.sleep(0.01)
        assert isinstance(reading.exception(), LayupError)


def test_two_threads_read_at_the_same_time():
    def read():
        return sum(len(part) for part in read_ahead(PATHS, Sizes(100_000), BATCHES, 2))

    with ThreadPoolExecutor(2) as threads:
        reading = [threads.submit(read) for _ in range(6)]
        assert [each.result(60) for each in reading] == [100_000 * len(BATCHES)] * 6


def test_processes_that_cannot_be_started_are_a_sentence(monkeypatch):
    others = children()
    fork = os.fork
    started = []

    def full():
        if started:
            raise OSError(12, "Cannot allocate memory")
        started.append(True)
        return fork()

    monkeypatch.setattr(os, "fork", full)
    with pytest.raises(LayupError, match=r"could not be started.*workers=0"):
        list(read_ahead(PATHS, Sizes(1), BATCHES, 2))
    assert started
    assert children() <= others


@pytest.mark.parametrize("workers", [0, 1])
def test_other_errors_stay_what_they_are(workers):
    def fail(_):
        raise ZeroDivisionError("a mistake of ours")

    with pytest.raises(ZeroDivisionError, match="a mistake of ours") as raised:
        list(read_ahead(PATHS, fail, BATCHES, workers))
    if workers:
        assert "in fail" in raised.value.__notes__[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sentence_stays_one(workers):
    with pytest.raises(BadImageError, match=r"^Cannot use 'a\.jpg': there is no such file\.$"):
        list(read_ahead(PATHS, lambda indices: open_image(PATHS[indices[0]]), BATCHES[:1], workers))


def test_an_error_that_cannot_be_sent_is_told():
    class OwnError(Exception):
        """Of nowhere: it cannot be pickled."""

    def fail(_):
        raise OwnError("a mistake of theirs")

    with pytest.raises(RuntimeError, match=r"^OwnError: a mistake of theirs$"):
        list(read_ahead(PATHS, fail, BATCHES, 1))


# No process is left behind


@pytest.mark.parametrize("size", [10, 5_000_000])
def test_processes_end_with_the_reading(size):
    others = children()
    for _ in range(3):
        assert len(list(read_ahead(PATHS, Sizes(size), BATCHES[:10], 2))) == 10
    assert children() <= others
    stream = read_ahead(PATHS, Sizes(size), BATCHES, 2)
    next(stream)
    assert len(children() - others) == 2
    stream.close()  # before the end
    assert children() <= others
    forgotten = read_ahead(PATHS, Sizes(size), BATCHES, 2)
    next(forgotten)
    del forgotten
    assert children() <= others


READ = """
import os, sys, time
from layup.features.reader import read_ahead
def note(indices):
    time.sleep(0.05)
    return os.getpid(), bytes(int(sys.argv[1]))
for pid, _ in read_ahead(["a.jpg"], note, [[index] for index in range(10**4)], 2):
    print(pid, flush=True)
"""


@pytest.mark.parametrize("size", [10, 5_000_000])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_one_that_began(size, end):
    """Ctrl-C reaches all of a group; the others reach only the first process."""
    child = subprocess.Popen(
        [sys.executable, "-c", READ, str(size)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with child:
        workers = {int(child.stdout.readline()) for _ in range(6)}
        assert len(workers) == 2
        (os.killpg if end == signal.SIGINT else os.kill)(child.pid, end)
        said = child.stderr.read()  # until all have closed it
    assert said.count("Traceback") == (1 if end == signal.SIGINT else 0)
    assert child.returncode == -end
    for worker in workers:
        for _ in range(100):
            if not running(worker):
                break
            time.sleep(0.05)
        assert not running(worker)


def running(pid):
    """Whether there is such a process, and it is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
