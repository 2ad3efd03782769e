"""Methods, datasets, adapters and backbones that another package adds, and what goes wrong with some."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from PIL import Image

from layup import FirstSession, LayUP, load, load_backbone
from layup.adapters import ADAPTERS, adapter_from
from layup.backbones import BACKBONES, elsewhere
from layup.benchmark.datasets import DATASETS, load_dataset
from layup.benchmark.laws import Examples, check
from layup.benchmark.methods import METHODS, Setup, method_class, method_from
from layup.errors import ConsentError, InputError, UnknownNameError
from layup.registry import Registry
from photos import batch
from processes import COMMAND, Quick

EXAMPLE = Path(__file__).parent.parent / "examples" / "plugin"
REGISTRIES: tuple[Registry[Any], ...] = (METHODS, DATASETS, ADAPTERS, BACKBONES)
ADDED = {"layup.methods": "thumbnails", "layup.datasets": "stripes"}
ADDED |= {"layup.adapters": "biases", "layup.backbones": "small-conv"}


def install(folder: Path, package: str, points: dict[str, dict[str, str]], modules: dict[str, str]) -> None:
    """What an installer leaves in a folder of packages."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items())
        for group, names in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(dedent(text))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new folder of packages."""
    monkeypatch.syspath_prepend(tmp_path / "packages")
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_found", None)
        monkeypatch.setattr(registry, "_loaded", {})
    before = set(sys.modules)
    yield tmp_path / "packages"
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def example(folder: Path) -> Path:
    """The package of examples/plugin, installed."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    text = (EXAMPLE / "layup_example.py").read_text()
    install(folder, project["name"], project["entry-points"], {"layup_example": text})
    return folder


@pytest.fixture
def broken(folder: Path) -> Callable[..., None]:
    """Install a package whose module holds just this."""

    def make(code: str, target: str = "sick:thing", name: str = "sick", package: str = "sick-pack") -> None:
        groups = ("methods", "datasets", "adapters", "backbones")
        points = {f"layup.{group}": {name: target} for group in groups}
        install(folder, package, points, {target.partition(":")[0]: code})

    return make


# ---- what works


def test_a_package_adds_a_name_of_each_kind_in_its_own_group() -> None:
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    assert {group: [*names] for group, names in points.items()} == {g: [n] for g, n in ADDED.items()}
    assert {registry.group for registry in REGISTRIES} == {*ADDED}


@pytest.mark.usefixtures("example")
def test_all_four_are_used_by_their_ordinary_names(tmp_path: Path) -> None:
    dataset = load_dataset("stripes")
    backbone = load_backbone("small-conv")
    assert (backbone.name, backbone.depth) == ("small-conv", 3)
    assert load_backbone("small-conv", input_size=24).preprocessing.size == (24, 24)
    learner = method_from("thumbnails", {}).begin(Setup(backbone, "cil"))
    learner.learn(dataset.train.images, dataset.train.labels)
    assert learner.predict(dataset.test.images)[""] == list(dataset.test.labels)
    session = FirstSession("biases", epochs=1)
    assert FirstSession.from_dict(json.loads(json.dumps(session.to_dict()))) == session
    model = LayUP("vit-nano", 2, adapter=session, cache=False)
    model.learn(dataset.train.images, dataset.train.labels)
    model.save(tmp_path / "m.layup")
    again = load(tmp_path / "m.layup", cache=False)
    assert again.predict(dataset.test.images).tolist() == model.predict(dataset.test.images).tolist()
    assert again.backbone_.fingerprint == model.backbone_.fingerprint


@pytest.mark.usefixtures("example")
def test_a_method_of_a_package_is_held_to_the_laws(backbone: Any) -> None:
    check(method_class("thumbnails")(), Setup(backbone, "cil"), Examples.of(load_dataset("digits")))


@pytest.mark.usefixtures("example")
def test_names_of_packages_come_after_those_of_layup() -> None:
    for registry in REGISTRIES:
        name = ADDED[str(registry.group)]
        assert list(registry) == [*registry.built_in, name]
        assert len(registry) == len(registry.built_in) + 1
        assert registry.packages == {name: "layup-example"}


@pytest.mark.usefixtures("example")
def test_commands_know_them(ok: Callable[..., Any], tmp_path: Path) -> None:
    assert "The nearest thumbnail" in ok("methods").out
    assert "192 values" in ok("methods", "thumbnails").out
    assert "stripes" in ok("datasets").out
    assert "small-conv: from the installed package layup-example." in ok("backbones").out
    run = ("run", "--dataset", "stripes", "--method", "thumbnails", "--backbone", "small-conv")
    assert "1.000" in ok(*run, "--out", tmp_path / "results", "--no-cache").out


@pytest.mark.usefixtures("example")
def test_an_unknown_name_is_guessed_among_them_too() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'thumbnails'"):
        method_from("thumbnail", {})
    with pytest.raises(UnknownNameError, match="Did you mean 'stripes'"):
        load_dataset("stripe")
    with pytest.raises(UnknownNameError, match="Did you mean 'biases'"):
        FirstSession("biase")
    with pytest.raises(UnknownNameError, match="Did you mean 'small-conv'"):
        load_backbone("small-con")


# ---- nothing is looked for before it is needed


LAZY = """
import importlib.metadata, sys
looked = []
real = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **given: looked.append(given.get("group")) or real(**given)
from layup import FirstSession, load_backbone
from layup.benchmark.datasets import load_dataset
from layup.benchmark.methods import method_from
method_from("layup", {}), load_dataset("digits"), FirstSession("ssf"), load_backbone("bundled")
ours = [group for group in looked if group and group.startswith("layup.")]
assert not ours, ours
assert "layup_example" not in sys.modules
FirstSession("biases")
assert [group for group in looked if group and group.startswith("layup.")] == ["layup.adapters"]
assert "layup_example" in sys.modules
"""


@pytest.mark.slow
def test_nobody_looks_for_packages_while_names_are_built_in(example: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(example)!r})\n{LAZY}"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


# ---- what does not work is one sentence


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise RuntimeError('no good\\nat all')", r"RuntimeError: no good\nat all"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("thing = ", "SyntaxError: invalid syntax"),
        ("other = 1", "AttributeError: module 'sick' has no attribute 'thing'"),
    ],
)
def test_a_broken_package_is_one_warning_that_names_it(
    broken: Callable[..., None], code: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken(code)
    for registry in REGISTRIES:
        caplog.clear()
        assert list(registry) == [*registry.built_in]
        assert list(registry) == [*registry.built_in]
        assert "sick" not in registry
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        expected = f"The {registry.kind} 'sick' of the installed package 'sick-pack' is left out: {says}"
        assert record.getMessage().startswith(expected)
        assert "\n" not in record.getMessage()
        with pytest.raises(UnknownNameError, match=r"Unknown .* 'sick'"):
            registry["sick"]


NOT_THESE = {
    "thing = 3": ["subclass of Method", "not callable", "subclass of Adapter"],
    "class thing: name = 'sick'": ["subclass of Method", "no Source", "subclass of Adapter"],
    """
    from layup.adapters import Full
    from layup.benchmark.datasets import source_of
    from layup.benchmark.methods import method_class
    methods, adapters = method_class("nmc"), Full
    def datasets(): return source_of("digits")
    """: ["calls itself 'nmc'", "is called 'digits'", "calls itself 'full'"],
}


@pytest.mark.parametrize("code", NOT_THESE)
def test_what_is_not_of_its_kind_or_not_of_its_name_is_left_out(
    folder: Path, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    groups = ("methods", "datasets", "adapters")
    each = {group: group if f"{group}" in code else "thing" for group in groups}
    points = {f"layup.{group}": {"sick": f"sick:{target}"} for group, target in each.items()}
    install(folder, "sick-pack", points, {"sick": code})
    for registry, says in zip(REGISTRIES, NOT_THESE[code], strict=False):
        caplog.clear()
        assert "sick" not in registry
        (record,) = caplog.records
        assert says in record.getMessage()


def test_a_command_goes_on_without_a_broken_package(broken: Callable[..., None], folder: Path) -> None:
    broken("raise RuntimeError('no good')")
    with Quick(
        f"import sys; sys.path.insert(0, {str(folder)!r}); {COMMAND}", "methods", cwd=folder
    ) as process:
        done = process.finished()
    assert done.code == 0
    assert "ranpac" in done.out
    assert "sick" not in done.out
    said = " ".join(done.err.split())
    assert (
        said == "The method 'sick' of the installed package 'sick-pack' is left out: RuntimeError: no good."
    )


def test_a_backbone_that_cannot_be_made_is_a_sentence_that_names_the_package(
    broken: Callable[..., None],
) -> None:
    broken("def thing(input_size, device): return 1 / 0")
    with pytest.raises(
        InputError, match="'sick' of the installed package 'sick-pack' cannot be loaded: Zero"
    ):
        load_backbone("sick")


def test_a_backbone_that_is_none_is_refused(broken: Callable[..., None]) -> None:
    broken("def thing(input_size, device): return 'network'")
    with pytest.raises(InputError, match="it returned a str, not a Backbone"):
        load_backbone("sick")


@pytest.mark.usefixtures("example")
def test_a_backbone_of_a_package_takes_no_weights_and_promises_no_silence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has its own weights and takes no file"):
        load_backbone("small-conv", weights=tmp_path / "w.pt")
    with pytest.raises(InputError, match="which may download something"):
        load_backbone("small-conv", local_only=True)


# ---- what is built in stays


def test_what_is_built_in_cannot_be_replaced(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for registry in REGISTRIES:
        name = registry.built_in[0]
        before = registry[name]
        points = {str(registry.group): {name: "sick:thing"}}
        install(folder, f"sick-{registry.kind}", points, {"sick": "raise AssertionError('was loaded')"})
        caplog.clear()
        assert list(registry) == list(registry.built_in)
        assert registry[name] is before
        (record,) = caplog.records
        assert record.getMessage() == (
            f"The {registry.kind} {name!r} of the installed package 'sick-{registry.kind}' is left out: "
            "layup itself has one of that name."
        )


def test_names_of_timm_and_prefixes_cannot_be_replaced(folder: Path) -> None:
    points = {
        "layup.backbones": {"resnet18": "sick:thing", "resnet18.a1_in1k": "sick:thing"},
        "layup.datasets": {"folder": "sick:thing"},
    }
    install(folder, "sick-pack", points, {"sick": "raise AssertionError('was loaded')"})
    for name in points["layup.backbones"]:
        assert "timm" in str(elsewhere({"name": name, "weights": None}))
    with pytest.raises(InputError, match="There is no folder"):
        load_dataset("folder:nowhere at all")
    assert "sick" not in sys.modules


def test_of_two_packages_with_one_name_the_first_is_taken(
    broken: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    code = "from layup.adapters import Full\nclass thing(Full): name = 'sick'"
    broken(code, "one:thing", package="a-pack")
    broken("raise AssertionError('was loaded')", "two:thing", package="b-pack")
    assert FirstSession("sick").adapter.to_dict()["name"] == "sick"  # type: ignore[union-attr]
    assert ADAPTERS.packages == {"sick": "a-pack"}
    assert [record.getMessage() for record in caplog.records] == [
        "The adapter 'sick' of the installed package 'b-pack' is left out: "
        "the package 'a-pack' has one of that name, too."
    ]


# ---- files of strangers


BAIT = """
from layup.adapters import Full
from layup.backbones import load_backbone
raise AssertionError("a file had this loaded")
"""


@pytest.fixture
def bait(broken: Callable[..., None]) -> None:
    """An installed package that must not be loaded."""
    broken(BAIT)


@pytest.mark.usefixtures("bait")
@pytest.mark.parametrize("adapter", [{"name": "sick"}, "sick"])
def test_an_adapter_that_a_file_names_loads_no_package(
    adapter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    values = {**FirstSession("ssf").to_dict(), "adapter": adapter}
    with pytest.raises(
        ConsentError, match="'sick' comes from the installed package 'sick-pack', which no file"
    ):
        FirstSession.from_dict(values)
    with pytest.raises(UnknownNameError, match="Unknown adapter 'sic'"):
        adapter_from({"name": "sic"})
    assert "sick" not in sys.modules
    assert not caplog.records


@pytest.mark.usefixtures("example")
def test_a_model_with_the_adapter_of_a_package_is_loaded_with_consent_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., Any], ok: Callable[..., Any]
) -> None:
    path = tmp_path / "m.layup"
    images, labels = batch({0: 4, 1: 4})
    model = LayUP("vit-nano", 1, adapter=FirstSession("biases", epochs=1), cache=False)
    model.learn(images, labels)
    model.save(path)
    photo = tmp_path / "photo.png"
    Image.fromarray(images[0]).save(photo)
    for name in ("_found", "_loaded"):  # another process
        monkeypatch.setattr(ADAPTERS, name, None if name == "_found" else {})
    monkeypatch.delitem(sys.modules, "layup_example")
    assert "biases" in ok("info", path).out
    with pytest.raises(ConsentError, match="comes from the installed package 'layup-example'"):
        load(path).predict(images)
    refused("predict", path, photo, says=["comes from the installed package 'layup-example'"])
    assert "layup_example" not in sys.modules
    assert labels[0] in ok("predict", path, photo, "--allow-backbone").out
    assert "layup_example" in sys.modules
    assert load(path, allow_backbone=True).predict(images[:1]).tolist() == labels[:1]


@pytest.mark.usefixtures("example")
def test_a_model_with_the_backbone_of_a_package_is_read_with_consent_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.layup"
    images, labels = batch({0: 4, 1: 4})
    model = LayUP("small-conv", 1, lam="gcv", cache=False)
    model.learn(images, labels)
    model.save(path)
    for name in ("_found", "_loaded"):
        monkeypatch.setattr(BACKBONES, name, None if name == "_found" else {})
    monkeypatch.delitem(sys.modules, "layup_example")
    with pytest.raises(ConsentError, match="'small-conv' of the installed package 'layup-example'"):
        load(path, cache=False).predict(images)
    assert "layup_example" not in sys.modules
    allowed = load(path, cache=False, allow_backbone=True)
    assert allowed.predict(images).tolist() == model.predict(images).tolist()
