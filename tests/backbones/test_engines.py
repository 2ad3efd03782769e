"""Every engine gives what the network itself gives, and a graph that would not is never used."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

from layup.adapters import SSF, AdaptedBackbone, AdaptFormer, Full
from layup.backbones import EAGER, ENGINES, Backbone, Preprocessing, load_backbone
from layup.backbones.folding import folded
from layup.backbones.timm_models import timm_backbone
from layup.benchmark.methods.sequential import SequentialMethod
from layup.errors import InputError, MissingPackageError, UnknownNameError
from layup.features.cache import FeatureCache, NoCache
from layup.features.extract import Extractor
from learners import setup_of, tiny
from photos import crops, digits

import layup.compat  # noqa: F401  # isort: skip  (before timm)
import timm  # isort: skip

OTHERS = [name for name in ENGINES if name != EAGER]
CLOSE = 2e-5  # of the largest value: float32, in another order


@pytest.fixture(autouse=True)
def with_onnx(request):
    """Leave the runtime's tests out where it is not installed."""
    if "onnx" in request.node.name:
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnx")


def batch_for(backbone, images=3):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(images, 3, *backbone.preprocessing.size, generator=generator)


def assert_same(backbone, engine, batch):
    expected, given = backbone(batch), backbone.with_engine(engine)(batch)
    assert len(given.layers) == len(expected.layers) == backbone.depth
    for ours, theirs in zip(
        (*given.layers, given.embedding), (*expected.layers, expected.embedding), strict=True
    ):
        assert ours.shape == theirs.shape
        assert ours.dtype == torch.float32
        assert (ours - theirs).abs().max() <= CLOSE * theirs.abs().max()


class Mixer(nn.Module):
    """All that must not be folded: outputs that are read or needed twice, and norms that serve twice."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.read = nn.Conv2d(3, 4, 3, padding=1)
        self.after_read = nn.BatchNorm2d(4)
        self.wrapped = nn.Sequential(nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, bias=False))
        self.after_wrapped = nn.BatchNorm2d(4)
        self.twice = nn.Conv2d(4, 4, 1)
        self.shared = nn.BatchNorm2d(4)
        self.other = nn.Conv2d(4, 4, 1)
        self.plain = nn.Conv2d(4, 5, 3, stride=2, bias=False)
        self.bare = nn.BatchNorm2d(5, affine=False)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
                if module.affine:
                    nn.init.normal_(module.weight, 1.0)
                    nn.init.normal_(module.bias)

    def forward(self, images):
        x = self.after_read(self.read(images))
        x = self.after_wrapped(self.wrapped(x))
        x = self.shared(self.twice(x)) + self.shared(self.other(x))
        return self.bare(self.plain(x))


def mixer():
    reader = Preprocessing((12, 12), (12, 12), "squash")
    return Backbone.from_module(Mixer(), ["read", "wrapped", "shared", "bare"], reader, device="cpu")


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize("name", ["bundled", "vit-nano"])
def test_engines_agree_on_what_comes_with_layup(name, engine):
    backbone = load_backbone(name, input_size=96 if name == "bundled" else None, device="cpu")
    assert_same(backbone, engine, batch_for(backbone))


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize("name", ["resnet10t", "test_convnext", "test_efficientnet", "test_nfnet"])
def test_engines_agree_on_convolutions_of_many_kinds(name, engine):
    torch.manual_seed(0)
    network = timm.create_model(name, num_classes=0)
    backbone = timm_backbone(network, Preprocessing((64, 64), (64, 64), "squash"), name=name, spec=None)
    assert_same(backbone, engine, batch_for(backbone))


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize("images", [1, 2, 5])
def test_engines_take_batches_of_any_size(engine, images):
    backbone = mixer()
    assert_same(backbone, engine, batch_for(backbone, images))


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize(
    "adapter",
    [SSF(), *(pytest.param(each, marks=pytest.mark.slow) for each in (AdaptFormer(width=4), Full()))],
)
def test_engines_compute_adapted_networks_as_they_are_now(engine, adapter):
    adapted = AdaptedBackbone(tiny().with_engine(engine), adapter)
    batch = batch_for(adapted)
    before = adapted(batch).embedding
    torch.manual_seed(0)
    adapted.load_state({name: value + torch.rand_like(value) for name, value in adapted.state().items()})
    assert adapted.engine == engine
    assert (adapted(batch).embedding - before).abs().max() > 0.01
    assert_same(adapted.with_engine(EAGER), engine, batch)


def test_a_folded_network_has_no_norm_left_and_the_given_one_all():
    network = timm.create_model("resnet10t", num_classes=0).eval()
    kinds = [type(module) for module in network.modules()]
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    small = folded(network, torch.zeros(1, 3, 64, 64), [])
    assert not any(isinstance(module, nn.BatchNorm2d) for module in small.modules())
    assert [type(module) for module in network.modules()] == kinds
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in small.modules())


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_folded_weights_are_as_exact_as_float32_can_be(affine, bias):
    torch.manual_seed(0)
    convolution, norm = nn.Conv2d(3, 64, 3, bias=bias), nn.BatchNorm2d(64, affine=affine)
    norm.running_mean.normal_(0, 1e3)  # large compared to what is left of it
    norm.running_var.uniform_(1e-6, 1e3)
    if affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    fused = folded(nn.Sequential(convolution, norm).eval(), torch.zeros(1, 3, 8, 8), [])[0]

    def exact(values, otherwise):
        return np.full(64, otherwise, np.longdouble) if values is None else values.detach().numpy()

    mean, variance, gamma, beta, offset = (
        exact(values, otherwise).astype(np.longdouble)
        for values, otherwise in (
            (norm.running_mean, 0),
            (norm.running_var, 0),
            (norm.weight, 1),
            (norm.bias, 0),
            (convolution.bias, 0),
        )
    )
    scale = gamma / np.sqrt(variance + np.longdouble(norm.eps))
    weight = convolution.weight.detach().numpy().astype(np.longdouble) * scale[:, None, None, None]
    for found, expected in ((fused.weight, weight), (fused.bias, (offset - mean) * scale + beta)):
        gap = np.abs(found.detach().numpy() - expected)
        assert (gap <= np.spacing(np.abs(expected).astype(np.float32)) * 0.5001).all()


def test_only_what_serves_nothing_else_is_folded():
    network = mixer().network
    small = folded(network, torch.zeros(1, 3, 12, 12), ["read", "wrapped", "shared", "bare"])
    left = [name for name, module in small.named_modules() if isinstance(module, nn.BatchNorm2d)]
    assert left == ["after_read", "after_wrapped", "shared"]


class Hidden(nn.Module):
    """Also needs the output of a convolution before the norm, where hooks do not see it."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        nn.init.constant_(self.norm.weight, 3.0)

    def forward(self, images):
        seen = self.conv(images)
        return self.norm(seen) + 2 * seen


def test_an_engine_that_gives_something_else_is_refused():
    backbone = Backbone.from_module(
        Hidden(), ["norm"], Preprocessing((8, 8), (8, 8), "squash"), device="cpu"
    ).with_engine("folded")
    with pytest.raises(InputError, match=r"'folded' computes 'Hidden' wrongly.*Use 'eager'"):
        backbone(batch_for(backbone))


class Unusual(nn.Module):
    """A network that no exporter knows how to write down."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images):
        return torch.special.bessel_j0(self.conv(images))


def test_onnx_says_so_where_it_cannot_compute_a_network():
    backbone = Backbone.from_module(
        Unusual(), ["conv"], Preprocessing((8, 8), (8, 8), "squash"), device="cpu"
    ).with_engine("onnx")
    with pytest.raises(InputError, match=r"'onnx' cannot compute 'Unusual'.*Use 'eager'"):
        backbone(batch_for(backbone))


def test_a_missing_runtime_is_missed_when_an_image_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    backbone = load_backbone("vit-nano", engine="onnx", device="cpu")
    with pytest.raises(MissingPackageError, match=r"pip install 'layup-cl\[onnx\]'"):
        backbone(batch_for(backbone))


def test_an_unknown_engine_is_refused_at_once():
    with pytest.raises(UnknownNameError, match=r"Unknown engine 'onyx'. Known: eager, folded, onnx"):
        load_backbone("vit-nano", engine="onyx")


def test_another_engine_is_another_backbone_of_the_same_weights():
    backbone = mixer()
    other = backbone.with_engine("folded")
    assert (backbone.engine, other.engine) == ("eager", "folded")
    assert other.network is backbone.network
    assert other.fingerprint == backbone.fingerprint == backbone.features_key != other.features_key


def test_an_engine_is_made_once_and_anew_after_a_change(monkeypatch):
    made = []

    class Counted(ENGINES["folded"]):
        def __init__(self, *parts):
            made.append(1)
            super().__init__(*parts)

    monkeypatch.setitem(ENGINES._factories, "folded", Counted)
    backbone = mixer().with_engine("folded")
    batch = batch_for(backbone)
    before = backbone(batch).embedding
    assert torch.equal(backbone(batch).embedding, before)
    assert len(made) == 1
    with torch.no_grad():
        backbone.network.plain.weight.mul_(2)
    backbone.refresh()
    torch.testing.assert_close(backbone(batch).embedding, backbone.with_engine(EAGER)(batch).embedding)
    assert len(made) == 2


def test_cached_features_are_those_of_the_same_engine(tmp_path):
    cache = FeatureCache(tmp_path)
    images = digits(3, 5)
    eager, other = mixer(), mixer().with_engine("folded")
    rows = Extractor(eager, cache=cache).extract(images).rows
    assert Extractor(other, cache=cache).extract(images).forwarded == 5
    assert Extractor(other, cache=cache).extract(images).forwarded == 0
    assert cache.get_many(eager.fingerprint, list(Extractor(eager, cache=cache).extract(images).digests))
    np.testing.assert_allclose(Extractor(other, cache=cache).extract(images).rows, rows, rtol=1e-4, atol=1e-5)
    assert cache.stats().entries == 10


def test_methods_that_train_need_the_network_itself():
    with pytest.raises(InputError, match=r"engine 'folded'.*Leave the engine out"):
        SequentialMethod().begin(setup_of(tiny().with_engine("folded")))


def test_features_of_onnx_are_those_of_the_network():
    backbone = load_backbone("vit-nano", device="cpu")
    images = crops(3)
    expected = Extractor(backbone, cache=NoCache()).extract(images).rows
    given = Extractor(backbone.with_engine("onnx"), cache=NoCache()).extract(images).rows
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-4)
