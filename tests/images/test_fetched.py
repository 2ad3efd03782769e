"""Photos at addresses: fetched only if that is allowed, and never for longer, or more, than is allowed."""

from __future__ import annotations

import io
import sys
import tarfile
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from layup import LayUP
from layup.errors import BadImageError, InputError, MissingPackageError
from layup.features.reader import survey
from layup.images import (
    addresses,
    archives,
    fetched,
    image_digest,
    labelled_photos,
    open_image,
    unlabelled_photos,
)
from layup.images.fetched import FetchedImage
from layup.sharding import Plan, compute, union
from photos import write_photos

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos", {0: 3, 1: 2})


@pytest.fixture
def bucket(photos, tmp_path, monkeypatch):
    """The same photos in memory, and a list of their addresses."""
    store = fsspec.filesystem("memory")
    for path in photos.rglob("*.png"):
        store.pipe_file(f"memory://bucket/{path.relative_to(photos)}", path.read_bytes())
    rows = [
        f"memory://bucket/{path.relative_to(photos)},{path.parent.name}"
        for path in sorted(photos.rglob("*.png"))
    ]
    listed = tmp_path / "list.csv"
    listed.write_text("\n".join(["path,label", *rows]))
    monkeypatch.setattr(fetched, "_recent", fetched._Recent())
    archives._fetched.cache_clear()
    yield listed
    store.store.clear()


@pytest.fixture
def impatient(monkeypatch):
    """No second try waits."""
    monkeypatch.setattr(fetched, "PAUSES", (0.0, None))


def reason(image) -> str:
    with pytest.raises(BadImageError) as caught:
        open_image(image)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_photos_at_addresses_are_those_in_files(bucket, photos):
    there, here = labelled_photos(bucket, allow_addresses=True), labelled_photos(photos)
    assert there.labels == here.labels
    assert [*map(image_digest, there.images)] == [*map(image_digest, here.images)]
    assert open_image(there.images[4]).tobytes() == open_image(here.images[4]).tobytes()


def test_without_permission_nothing_is_fetched(bucket, monkeypatch):
    monkeypatch.setattr(fetched, "_opened", lambda address: pytest.fail(f"{address} was fetched"))
    for use in (labelled_photos, unlabelled_photos):
        with pytest.raises(InputError, match=r"line 2: 'memory://.*' is an address. Nothing is") as caught:
            use(bucket)
        assert caught.value.about == "allow_addresses"
        with pytest.raises(InputError, match=r"is an address\. Nothing is fetched"):
            use("memory://bucket/0.tar")
    with pytest.raises(BadImageError, match="there is no such file"):
        open_image("memory://bucket/digit 0/000.png")


@pytest.mark.parametrize(
    "address", ["ftp://host/1.jpg", "simplecache:///x", "github://a:b@/x", "hf://datasets/cat/1.jpg"]
)
def test_few_protocols_are_followed(address):
    with pytest.raises(InputError, match=r"is not fetched. Use one of file, gs, http, https, memory, s3;"):
        unlabelled_photos(address, allow_addresses=True)


def test_chains_of_addresses_are_not_followed(bucket, impatient):
    with pytest.raises(InputError, match="There is no file or folder 'simplecache::memory:"):
        unlabelled_photos("simplecache::memory://bucket/digit 0/000.png", allow_addresses=True)
    (image,) = unlabelled_photos("memory://x::memory://bucket/digit 0/000.png", allow_addresses=True)
    assert reason(image).endswith("there is no such file.")


def test_an_address_of_a_file_is_its_path(photos, tmp_path):
    path = photos / "digit 0" / "000.png"
    listed = tmp_path / "list.csv"
    listed.write_text(f"path,label\nfile://{path},0\n")
    assert labelled_photos(listed, allow_addresses=True).images == [str(path)]
    assert unlabelled_photos(f"file:{path}", allow_addresses=True) == [path]
    with pytest.raises(InputError, match="is an address"):
        labelled_photos(listed)


def test_what_is_not_there_is_a_bad_photo(impatient):
    assert reason(FetchedImage("memory://no/1.jpg")) == (
        "Cannot use 'memory://no/1.jpg': there is no such file."
    )
    fsspec.filesystem("memory").pipe_file("memory://no/empty.jpg", b"")
    assert "it is empty (0 bytes)" in reason(FetchedImage("memory://no/empty.jpg"))


def test_more_than_a_photo_can_have_is_not_read(bucket, monkeypatch):
    monkeypatch.setattr(fetched, "LARGEST", 50)
    assert "it has more than 50 bytes" in reason(FetchedImage("memory://bucket/digit 0/000.png"))


class Endless(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        return b"x"


def test_a_host_that_drips_is_left(monkeypatch):
    monkeypatch.setattr(fetched, "_opened", lambda address: Endless())
    monkeypatch.setattr(fetched, "SECONDS", 0.01)
    assert "fetching it takes more than 0.01 seconds" in reason(FetchedImage("https://host/1.jpg"))


def test_what_fails_for_a_moment_is_tried_again(bucket, monkeypatch):
    whole, failures = fetched._opened, [OSError("reset by peer"), TimeoutError()]
    monkeypatch.setattr(fetched, "PAUSES", (0.0, 0.0, None))

    def unsteady(address):
        if failures:
            raise failures.pop()
        return whole(address)

    monkeypatch.setattr(fetched, "_opened", unsteady)
    assert open_image(FetchedImage("memory://bucket/digit 0/000.png")).size == (8, 8)
    failures += [OSError("reset by peer")] * 3
    assert "it cannot be fetched (reset by peer)" in reason(FetchedImage("memory://bucket/digit 0/001.png"))
    failures += [PermissionError("not for you")]
    assert "(not for you)" in reason(FetchedImage("memory://bucket/digit 0/002.png"))


def test_a_photo_is_fetched_once_for_digest_and_pixels(bucket, monkeypatch):
    whole, asked = fetched._opened, []
    monkeypatch.setattr(fetched, "_opened", lambda address: asked.append(address) or whole(address))
    images = labelled_photos(bucket, allow_addresses=True).images
    for image in images:
        image_digest(image)
    for image in images:
        open_image(image)
    assert len(asked) == len(images)
    monkeypatch.setattr(fetched, "REMEMBERED", 10)
    for image in images:
        image_digest(image)
        open_image(image)
    assert len(asked) > len(images)
    assert fetched._recent._photos == {}
    assert fetched._recent._size == 0


def test_packages_that_are_missing_are_named(monkeypatch):
    fetched.require_package.cache_clear()

    def missing(protocol):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(MissingPackageError, match=r"of 's3' need another package: Install s3fs to"):
        addresses.at_address("s3://bucket/1.jpg", allowed=True)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'layup-cl\[remote\]'"):
        addresses.at_address("s3://bucket/1.jpg", allowed=True)


# Plans and models


def learned(source, **options):
    model = LayUP("vit-nano", lam=1.0, cache=False)
    found = labelled_photos(source, **options)
    model.learn(found.images, found.labels)
    return model


def test_a_plan_of_addresses_gives_the_model_of_the_files(bucket, photos, tmp_path):
    found = labelled_photos(bucket, allow_addresses=True)
    Plan.write(tmp_path / "plan", found, LayUP("vit-nano", lam=1.0), 2)
    with pytest.raises(InputError, match="Nothing is fetched"):
        compute(Plan.read(tmp_path / "plan"), 0)
    plan = Plan.read(tmp_path / "plan", allow_addresses=True)
    fsspec.filesystem("memory").rm_file("memory://bucket/digit 0/000.png")
    for number in range(len(plan.slices)):
        compute(plan, number)
    model, bad = union(plan)
    gone = "'memory://bucket/digit 0/000.png'"
    assert bad == [f"{gone}: Cannot use {gone}: there is no such file."]
    (photos / "digit 0" / "000.png").unlink()
    assert model.state_hash == learned(photos).state_hash


def tar_of(photos: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for number, file in enumerate(sorted(photos.rglob("*.png"))):
            tar.add(file, f"{number:04}.png")
            label = tarfile.TarInfo(f"{number:04}.cls")
            label.size = len(file.parent.name)
            tar.addfile(label, io.BytesIO(file.parent.name.encode()))
    return path


def test_a_tar_at_an_address_is_as_good_as_a_file(bucket, photos, tmp_path):
    tar = tar_of(photos, tmp_path / "0.tar")
    fsspec.filesystem("memory").pipe_file("memory://shards/0.tar", tar.read_bytes())
    found = labelled_photos("memory://shards/{0..0}.tar", allow_addresses=True)
    assert str(found.images[0]) == "memory://shards/0.tar/0000.png"
    here = labelled_photos(tar)
    assert found.labels == here.labels
    assert [*map(image_digest, found.images)] == [*map(image_digest, here.images)]
    assert len(unlabelled_photos("memory://shards/0.tar/0003.png", allow_addresses=True)) == 1
    plan = Plan.write(tmp_path / "plan", found, LayUP("vit-nano", lam=1.0), 2)
    assert [str(each) for each in Plan.read(plan.folder, allow_addresses=True).photos(2).images] == [
        "memory://shards/0.tar/0004.png"
    ]
    assert learned("memory://shards/0.tar", allow_addresses=True).state_hash == learned(tar).state_hash


def test_a_tar_that_changes_at_its_address_is_noticed(bucket, photos, tmp_path):
    store = fsspec.filesystem("memory")
    contents = tar_of(photos, tmp_path / "0.tar").read_bytes()
    store.pipe_file("memory://shards/0.tar", contents)
    image = labelled_photos("memory://shards/0.tar", allow_addresses=True).images[0]
    archives._fetched.cache_clear()  # as in another process
    assert open_image(image).size == (8, 8)
    archives._fetched.cache_clear()
    store.pipe_file("memory://shards/0.tar", contents[:-1] + b"x")
    assert "the archive has changed since it was listed" in reason(image)
    archives._fetched.cache_clear()
    store.rm_file("memory://shards/0.tar")
    assert reason(image).endswith("there is no such file.")
    with pytest.raises(InputError, match=r"archive 'memory://shards/0.tar' cannot be read: there is no such"):
        labelled_photos("memory://shards/0.tar", allow_addresses=True)


def test_what_is_no_tar_has_no_labels(bucket):
    for address in ("memory://bucket/1.jpg", "memory://bucket/photos.zip", "memory://bucket/0.tar.gz"):
        with pytest.raises(InputError, match="must be a plain tar of photos and their labels"):
            labelled_photos(address, allow_addresses=True)


# A server


class Handler(BaseHTTPRequestHandler):
    """Photos, and everything that may go wrong with them. It knows no ranges."""

    photo = b""
    log: list[str]

    def do_GET(self) -> None:
        self.log.append(self.path)
        if self.path == "/silent":
            time.sleep(1)
            return
        status = {"/broken": 500, "/gone": 404, "/private": 403}.get(self.path, 200)
        self.send_response(status)
        self.end_headers()
        if self.path == "/endless":
            with suppress(OSError):
                while True:
                    self.wfile.write(b"x" * 65536)
        self.wfile.write(self.photo)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host(photos, impatient, monkeypatch):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    Handler.photo, Handler.log = (photos / "digit 0" / "000.png").read_bytes(), []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(fetched, "SILENCE", 0.3)
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_photos_are_fetched_over_http(host):
    (image,) = unlabelled_photos(f"{host}/1.png", allow_addresses=True)
    assert open_image(image).size == (8, 8)
    assert image_digest(image) == image_digest(Handler.photo)
    assert Handler.log == ["/1.png"]


def test_other_processes_fetch_as_well(host):
    images = [FetchedImage(f"{host}/{number}.png") for number in range(4)]
    open_image(images[0])
    found = survey(images[1:], workers=2, progress=False)
    assert (found.kept, found.bad) == ([0, 1, 2], [])
    assert found.digests == [image_digest(Handler.photo)] * 3


@pytest.mark.parametrize(
    ("path", "says", "tries"),
    [
        ("/gone", "there is no such file", 1),
        ("/private", "it cannot be fetched (403", 1),
        ("/broken", "it cannot be fetched (500", 2),
        ("/silent", "it cannot be fetched (", 2),
    ],
)
def test_what_a_server_refuses_is_a_sentence(host, path, says, tries):
    assert says in reason(FetchedImage(host + path))
    assert Handler.log == [path] * tries


def test_a_server_that_never_ends_is_left(host, monkeypatch):
    monkeypatch.setattr(fetched, "LARGEST", 3_000_000)
    assert "it has more than 3.0 MB" in reason(FetchedImage(f"{host}/endless"))


def test_a_host_that_is_not_there_is_a_sentence(host):
    assert "it cannot be fetched (" in reason(FetchedImage("http://127.0.0.1:9/1.jpg"))
