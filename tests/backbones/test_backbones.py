from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import layup.compat  # noqa: F401  # isort: skip  (before timm and torchvision)
import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_sample_image
from timm.data.transforms import CenterCropOrPad, ResizeKeepRatio
from torch import Tensor, nn
from torchvision.transforms import v2

from layup.backbones import (
    BACKBONES,
    Activations,
    Backbone,
    Layer,
    Pooling,
    Preprocessing,
    full_name,
    load_backbone,
)
from layup.backbones.bundled import imagenet_network
from layup.backbones.timm_models import timm_backbone
from layup.errors import (
    DamagedFileError,
    InputError,
    LayupError,
    MissingPackageError,
    StorageError,
    UnknownNameError,
)

EXACT: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # float32, and sums in another order


@pytest.fixture(scope="module")
def bundled() -> Backbone:
    return load_backbone("bundled", device="cpu")


@pytest.fixture(scope="module")
def nano() -> Backbone:
    return load_backbone("vit-nano", device="cpu")


@pytest.fixture
def picture() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (70, 101, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((203, 141))


def random_batch(backbone: Backbone, images: int = 2) -> Tensor:
    return torch.randn(images, 3, *backbone.preprocessing.size, generator=torch.Generator().manual_seed(0))


def random_timm(name: str) -> Backbone:
    """A timm network with random weights: its structure is what the test is about."""
    torch.manual_seed(0)
    network = timm.create_model(name, num_classes=0)
    preprocessing = Preprocessing.from_timm(timm.get_pretrained_cfg(name).to_dict())
    return timm_backbone(network, preprocessing, name=name, spec={"name": name})


def small_module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 6, 3), nn.Flatten(2)
    )


def small_backbone(**changes: Any) -> Backbone:
    arguments: dict[str, Any] = {
        "module": small_module(),
        "layers": ["0", "2", "3"],
        "preprocessing": Preprocessing((12, 12), (12, 12), "squash"),
    }
    return Backbone.from_module(**(arguments | changes))


# ---------------------------------------------------------------- preprocessing


@pytest.mark.parametrize("crop_mode", ["center", "squash", "border"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("crop_pct", [0.875, 0.9, 1.0])
def test_preprocessing_is_timms(
    picture: Image.Image, crop_mode: str, interpolation: str, crop_pct: float
) -> None:
    config = {
        "input_size": (3, 56, 56),
        "crop_mode": crop_mode,
        "crop_pct": crop_pct,
        "interpolation": interpolation,
        "mean": (0.48, 0.46, 0.41),
        "std": (0.23, 0.22, 0.25),
    }
    expected = timm.data.create_transform(**timm.data.resolve_data_config(config), is_training=False)(picture)
    ours = Preprocessing.from_timm(config).transform(picture)
    assert type(ours) is Tensor
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["vit_base_patch16_224.augreg_in21k", "convnext_tiny", "test_vit3"])
def test_preprocessing_of_timm_configs(picture: Image.Image, name: str) -> None:
    config = timm.get_pretrained_cfg(name).to_dict()
    data = timm.data.resolve_data_config(pretrained_cfg=config)
    expected = timm.data.create_transform(**data, is_training=False)(picture)
    torch.testing.assert_close(
        Preprocessing.from_timm(config).transform(picture), expected, rtol=0, atol=1e-6
    )


def composed(own: Preprocessing) -> v2.Compose:
    """The same transforms, made of the parts of torchvision and timm."""
    mode = v2.InterpolationMode(own.interpolation)
    keep_ratio: Any = partial(ResizeKeepRatio, own.resize, interpolation=own.interpolation)
    steps: list[Any] = [v2.Resize(own.resize, mode), v2.CenterCrop(own.size)]
    if own.crop == "border":
        fill = tuple(round(255 * value) for value in own.mean)
        steps = [keep_ratio(longest=1.0), CenterCropOrPad(list(own.size), fill=fill)]  # type: ignore[arg-type]
    elif own.crop == "center":
        square = own.resize[0] == own.resize[1]
        steps[0] = v2.Resize(own.resize[0], mode) if square else keep_ratio()
    steps += [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(own.mean, own.std)]
    return v2.Compose(steps)


@pytest.mark.parametrize("crop", ["center", "squash", "border"])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"])
@pytest.mark.parametrize(
    ("size", "resize"),
    [((24, 40), (27, 45)), ((32, 32), (36, 36)), ((32, 32), (32, 32)), ((48, 48), (40, 40))],
)
def test_preprocessing_is_torchvisions_to_the_bit(
    picture: Image.Image, crop: Any, interpolation: str, size: tuple[int, int], resize: tuple[int, int]
) -> None:
    own = Preprocessing(size, resize, crop, interpolation, (0.48, 0.46, 0.41), (0.23, 0.22, 0.25))
    for image in (picture, picture.resize((61, 97)), picture.resize((7, 5)), picture.resize(size[::-1])):
        assert torch.equal(own.transform(image), composed(own)(image))


@pytest.mark.parametrize("crop", ["center", "squash", "border"])
@pytest.mark.parametrize("wide", [(90, 30), (30, 90), (7, 5)])
def test_preprocessing_gives_the_size_whatever_the_image(crop: Any, wide: tuple[int, int]) -> None:
    preprocessing = Preprocessing((24, 40), (27, 45), crop)
    assert preprocessing.transform(Image.new("RGB", wide)).shape == (3, 24, 40)


def test_preprocessing_is_json() -> None:
    preprocessing = Preprocessing.from_timm(timm.get_pretrained_cfg("resnet18").to_dict(), input_size=96)
    assert preprocessing.size == (96, 96)
    assert json.loads(json.dumps(preprocessing.to_dict())) == preprocessing.to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": (0, 8)}, "not an image size"),
        ({"crop": "middle"}, "Known: center, squash, border"),
        ({"interpolation": "cubic"}, "Known: nearest"),
        ({"std": (1.0, 0.0, 1.0)}, "none of std may be 0"),
        ({"mean": (0.5,)}, "three values"),
    ],
)
def test_preprocessing_refuses_nonsense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Preprocessing(**({"size": (8, 8), "resize": (8, 8)} | change))


# ---------------------------------------------------------------- pooling


def test_pooling_by_hand() -> None:
    tokens, maps = torch.randn(2, 5, 3), torch.randn(2, 3, 4, 6)
    torch.testing.assert_close(Pooling(True, 2)(tokens), tokens[:, 0])
    torch.testing.assert_close(Pooling(False, 2)(tokens), (tokens[:, 2] + tokens[:, 3] + tokens[:, 4]) / 3)
    torch.testing.assert_close(Pooling()(maps), maps.flatten(2).mean(2))
    torch.testing.assert_close(Pooling(channels_last=True)(maps), maps.flatten(1, 2).mean(1))
    torch.testing.assert_close(Pooling()((tokens[:, 0], None)), tokens[:, 0])


def test_pooled_vectors_share_no_memory_with_the_output() -> None:
    tokens = torch.ones(2, 5, 3)
    vector = Pooling(class_token=True)(tokens)
    tokens.zero_()
    assert vector.eq(1).all()
    assert vector.untyped_storage().nbytes() == 2 * 3 * 4


def test_pooling_refuses_what_is_no_layer() -> None:
    with pytest.raises(InputError, match=r"shape \(7,\)"):
        Pooling()(torch.zeros(7))
    with pytest.raises(InputError, match="gave dict"):
        Pooling()({})


# ---------------------------------------------------------------- what a backbone reads


def test_vit_layers_are_class_tokens_before_the_final_norm(nano: Backbone) -> None:
    batch = random_batch(nano)
    seen = nano(batch)
    network: Any = nano.network
    with torch.inference_mode():
        tokens = network._pos_embed(network.patch_embed(batch))
        for block, vector in zip(network.blocks, seen.layers, strict=True):
            tokens = block(tokens)
            torch.testing.assert_close(vector, tokens[:, 0], **EXACT)
        torch.testing.assert_close(seen.embedding, network.norm(tokens)[:, 0], **EXACT)
        final, _ = network.forward_intermediates(batch, return_prefix_tokens=True)
        torch.testing.assert_close(seen.embedding, final[:, 0], **EXACT)


def test_bundled_layers_are_means_of_the_blocks_maps(bundled: Backbone) -> None:
    batch = random_batch(bundled)
    seen = bundled(batch)
    network: Any = bundled.network
    with torch.inference_mode():
        maps = network.bn1(network.conv_stem(batch))
        blocks = [block for stage in network.blocks for block in stage]
        for block, vector in zip(blocks, seen.layers[:-1], strict=True):
            maps = block(maps)
            torch.testing.assert_close(vector, maps.mean((2, 3)), **EXACT)
        expected = network.bn2(network.conv_head(maps)).mean((2, 3))
    torch.testing.assert_close(seen.embedding, expected, **EXACT)
    torch.testing.assert_close(seen.layers[-1], seen.embedding)


FAMILIES = [  # name, first and last layer, depth, default k, class token, prefix tokens
    ("test_vit", "blocks.0", "blocks.5", 6, 6, True, 1),
    ("test_vit2", "blocks.0", "blocks.7", 8, 6, False, 1),
    ("deit_tiny_distilled_patch16_224", "blocks.0", "blocks.11", 12, 6, True, 2),
    ("xcit_nano_12_p16_224", "blocks.0", "blocks.11", 12, 6, False, 0),
    ("mixer_s32_224", "blocks.0", "blocks.7", 8, 6, False, 0),
    ("test_convnext", "stages.0.blocks.0", "stages.3.blocks.1", 9, 3, False, 0),
    ("test_resnet", "layer1.0", "layer4.0", 4, 1, False, 0),
    ("test_efficientnet", "blocks.0.0", "head", 6, 2, False, 0),
    ("test_mambaout", "stages.0.blocks.0", "head", 7, 2, False, 0),  # (B, H, W, C), and says so
    (
        "tiny_vit_5m_224",
        "stages.0.blocks.0",
        "stages.3.blocks.1",
        12,
        4,
        False,
        0,
    ),  # both kinds of maps, and says nothing
    ("levit_128s", "stages.0", "stages.2", 3, 3, False, 0),  # no layer map: stages
]


@pytest.mark.parametrize(
    ("name", "first", "last", "depth", "k", "class_token", "prefix"),
    FAMILIES,
    ids=[row[0] for row in FAMILIES],
)
def test_families_of_timm(
    name: str, first: str, last: str, depth: int, k: int, class_token: bool, prefix: int
) -> None:
    backbone = random_timm(name)
    assert (backbone.layers[0].name, backbone.layers[-1].name) == (first, last)
    assert (backbone.depth, backbone.default_k) == (depth, k)
    network: Any = backbone.network
    outputs: dict[str, Tensor] = {}
    for layer in backbone.layers:
        if layer.name != "head":
            module = network.get_submodule(layer.name)
            module.register_forward_hook(
                lambda _m, _i, out, key=layer.name: outputs.update({key: out.clone()})
            )
    batch = random_batch(backbone)
    with torch.inference_mode():
        expected = network.forward_head(network.forward_features(batch), pre_logits=True)
    plain = dict(outputs)  # the next call fires the test's own hooks too
    seen = backbone(batch)
    torch.testing.assert_close(seen.embedding, expected, rtol=1e-3, atol=1e-4)
    channels = {entry["num_chs"] for entry in network.feature_info} | {backbone.embedding_width}
    for layer, vector in zip(backbone.layers, seen.layers, strict=True):
        assert vector.shape == (2, layer.width)
        assert vector.dtype == torch.float32
        if layer.name in plain:
            output = plain[layer.name]
            if output.ndim == 3:
                mean = output[:, 0] if class_token else output[:, prefix:].mean(1)
            else:
                axis = next(axis for axis in (1, 3) if output.shape[axis] in channels)
                mean = output.mean([other for other in (1, 2, 3) if other != axis])
            torch.testing.assert_close(vector, mean, rtol=1e-3, atol=1e-4)


def test_swin_maps_have_their_channels_last() -> None:
    backbone = random_timm("swin_tiny_patch4_window7_224")
    assert [layer.width for layer in backbone.layers] == [96] * 2 + [192] * 2 + [384] * 6 + [768] * 2


def test_registers_are_left_out_of_the_mean() -> None:
    network: Any = timm.create_model(
        "test_vit", num_classes=0, class_token=False, reg_tokens=3, global_pool="avg"
    )
    preprocessing = Preprocessing((160, 160), (160, 160))
    backbone = timm_backbone(network, preprocessing, name="registers", spec=None)
    outputs: list[Tensor] = []
    network.blocks[-1].register_forward_hook(lambda _m, _i, out: outputs.append(out))
    seen = backbone(random_batch(backbone))
    torch.testing.assert_close(seen.layers[-1], outputs[-1][:, 3:].mean(1))


@pytest.mark.parametrize("which", ["bundled", "nano"])
def test_a_call_leaves_nothing_behind(which: str, request: pytest.FixtureRequest) -> None:
    backbone: Backbone = request.getfixturevalue(which)
    before = backbone.fingerprint
    backbone(random_batch(backbone))
    backbone.refresh()
    assert backbone.fingerprint == before
    assert not backbone.network.training
    assert not any(parameter.requires_grad for parameter in backbone.network.parameters())
    assert not any(module._forward_hooks for module in backbone.network.modules())


def test_hooks_are_gone_after_a_failure() -> None:
    class Fragile(nn.Sequential):
        broken = False

        def forward(self, batch: Tensor) -> Tensor:
            if self.broken:
                raise RuntimeError("broken")
            return super().forward(batch)

    network = Fragile(nn.Conv2d(3, 2, 3), nn.ReLU())
    backbone = small_backbone(module=network, layers=["0", "1"])
    network.broken = True
    with pytest.raises(RuntimeError, match="broken"):
        backbone(random_batch(backbone))
    assert not any(module._forward_hooks for module in network.modules())


@pytest.mark.parametrize("which", ["bundled", "nano"])
def test_an_image_does_not_depend_on_its_batch(which: str, request: pytest.FixtureRequest) -> None:
    backbone: Backbone = request.getfixturevalue(which)
    batch = random_batch(backbone, 5)
    together, alone = backbone(batch), backbone(batch[3:4])
    for many, one in zip(together.layers, alone.layers, strict=True):
        torch.testing.assert_close(many[3:4], one, **EXACT)
    torch.testing.assert_close(together.embedding[3:4], alone.embedding, **EXACT)


def test_an_empty_batch_gives_no_rows(nano: Backbone) -> None:
    seen = nano(torch.empty(0, 3, 64, 64))
    assert [vector.shape for vector in seen.layers] == [(0, 128)] * 12


def test_threads_do_not_read_each_others_batches(nano: Backbone) -> None:
    batches = [torch.full((1, 3, 64, 64), float(number)) for number in range(4)]
    expected = [nano(batch).layers[-1] for batch in batches]
    results: dict[int, list[Activations]] = {number: [] for number in range(4)}

    def work(number: int) -> None:
        results[number].extend(nano(batches[number]) for _ in range(5))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, seen in results.items():
        assert len(seen) == 5
        for activations in seen:
            torch.testing.assert_close(activations.layers[-1], expected[number], **EXACT)


@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 3, 32, 32), (2, 1, 64, 64)])
def test_a_batch_of_another_shape_is_refused(nano: Backbone, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"reads \(B, 3, 64, 64\)"):
        nano(torch.zeros(shape))


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_images_of_any_mode_are_read(nano: Backbone, picture: Image.Image, mode: str) -> None:
    assert nano.preprocess(picture.convert(mode)).shape == (3, 64, 64)


def test_last_names_the_deepest_layers(bundled: Backbone) -> None:
    assert bundled.last(2) == ("blocks.6.0", "head")
    assert bundled.last(17) == tuple(layer.name for layer in bundled.layers)


def test_too_many_layers_name_the_depth(bundled: Backbone) -> None:
    with pytest.raises(InputError) as caught:
        bundled.last(20)
    assert str(caught.value) == (
        "k = 20 asks for more layers than 'bundled' has: it has 17 (blocks.0.0 … head). "
        "Use k between 1 and 17."
    )
    with pytest.raises(
        InputError, match=r"k = 0 is not a number of layers for 'bundled': .* between 1 and 17"
    ):
        bundled.last(0)


# ---------------------------------------------------------------- fingerprint


def test_fingerprint_is_the_same_after_a_reload_and_in_any_memory_format(bundled: Backbone) -> None:
    again = load_backbone(**bundled.spec or {}, device="cpu")
    assert again.fingerprint == bundled.fingerprint
    again.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    again.refresh()
    assert again.fingerprint == bundled.fingerprint
    assert copy.deepcopy(again).fingerprint == bundled.fingerprint


def test_fingerprint_ignores_counters_of_training() -> None:
    backbone = small_backbone()
    before = backbone.fingerprint
    counter = backbone.network.get_buffer("1.num_batches_tracked")
    counter += 7
    backbone.refresh()
    assert backbone.fingerprint == before


def _with_other_weight() -> Backbone:
    backbone = small_backbone()
    backbone.network.get_parameter("3.bias")[0] += 1e-6
    return backbone


def _with_other_running_mean() -> Backbone:
    backbone = small_backbone()
    backbone.network.get_buffer("1.running_mean")[0] += 1e-6
    return backbone


def _with_other_activation() -> Backbone:
    module: Any = small_module()
    module[2] = nn.GELU()
    return small_backbone(module=module)


def _with_other_stride() -> Backbone:
    module: Any = small_module()
    module[3].stride = (2, 2)
    return small_backbone(module=module)


@pytest.mark.parametrize(
    "changed",
    [
        _with_other_weight,
        _with_other_running_mean,
        _with_other_activation,
        _with_other_stride,
        lambda: small_backbone(layers=["0", "3"]),
        lambda: small_backbone(embedding="3"),
        lambda: small_backbone(pooling=Pooling(prefix_tokens=1)),
        lambda: small_backbone(preprocessing=Preprocessing((12, 12), (13, 13), "squash")),
        lambda: small_backbone(preprocessing=Preprocessing((12, 12), (12, 12), "squash", "bilinear")),
    ],
)
def test_fingerprint_changes_with(changed: Callable[[], Backbone]) -> None:
    assert small_backbone().fingerprint == small_backbone().fingerprint
    assert changed().fingerprint != small_backbone().fingerprint


def test_fingerprint_follows_a_wrapped_module() -> None:
    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, batch: Tensor) -> Tensor:
            return self.inner(batch) * self.scale  # type: ignore[no-any-return]

    backbone = small_backbone()
    batch = random_batch(backbone)
    before, plain = backbone.fingerprint, backbone(batch)
    network: Any = backbone.network
    network[3] = Wrapper(network[3])
    assert backbone.fingerprint == before  # cached
    backbone.refresh()
    assert backbone.fingerprint != before
    torch.testing.assert_close(backbone(batch).layers[-1], plain.layers[-1] * 2, **EXACT)


def test_fingerprint_is_the_same_in_every_version() -> None:
    """A change of this value makes every stored feature and model of every user unknown."""
    backbone = random_timm("test_vit")
    for parameter in backbone.network.parameters():
        parameter.fill_(0.5)
    assert backbone.fingerprint == "2208c2d7fa2600de915122dd4c32fd6cc85c40def78272b74abef9c145c3badc"


def test_fingerprints_of_sizes_differ(bundled: Backbone) -> None:
    assert load_backbone(input_size=96, device="cpu").fingerprint != bundled.fingerprint


# ---------------------------------------------------------------- a module of one's own


def test_from_module_reads_by_hand() -> None:
    backbone = small_backbone()
    assert backbone.layers == (Layer("0", 4), Layer("2", 4), Layer("3", 6))
    assert backbone.spec is None
    batch = random_batch(backbone)
    network: Any = backbone.network
    seen = backbone(batch)
    with torch.inference_mode():
        first = network[0](batch)
        third = network[2](network[1](first.clone()))
        fourth = network[3](third)
    # The ReLU works in place: what was read before it must be what was there before it.
    for vector, maps in zip(seen.layers, (first, third, fourth), strict=True):
        torch.testing.assert_close(vector, maps.mean((2, 3)), **EXACT)
    torch.testing.assert_close(seen.embedding, network[4](fourth).mean(1), **EXACT)


def test_a_module_that_runs_twice_keeps_its_last_output() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(3, 3, 1)

        def forward(self, batch: Tensor) -> dict[str, Tensor]:
            return {"maps": self.layer(self.layer(batch))}

    backbone = small_backbone(module=Twice(), layers=["layer"])
    batch = random_batch(backbone)
    layer: Any = backbone.network.get_submodule("layer")
    seen = backbone(batch)
    torch.testing.assert_close(seen.layers[0], layer(layer(batch)).mean((2, 3)), **EXACT)
    torch.testing.assert_close(seen.embedding, seen.layers[0])  # the network gives no tensor


def test_from_module_refuses_what_it_cannot_read() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown layer '9'. Known: 0, 1, 2, 3, 4"):
        small_backbone(layers=["0", "9"])
    with pytest.raises(UnknownNameError, match=r"Did you mean 'layer1.0.conv1'"):
        small_backbone(module=timm.create_model("resnet10t"), layers=["layer1.0.conf1"])
    with pytest.raises(InputError, match="at least one module"):
        small_backbone(layers=[])
    odd = small_module()
    odd.add_module("a\nb", nn.Flatten())
    with pytest.raises(InputError, match=r"'a\\nb' has control characters in its name"):
        small_backbone(module=odd, layers=["a\nb"])

    class Idle(nn.Sequential):
        def forward(self, batch: Tensor) -> Any:
            return self[0](batch)

    with pytest.raises(InputError, match="Layer '1' of 'Idle' is not used in the forward pass"):
        small_backbone(module=Idle(nn.Conv2d(3, 3, 1), nn.ReLU()), layers=["0", "1"])
    with pytest.raises(InputError, match=r"gives shape \(12, 1\)"):
        small_backbone(
            module=nn.Sequential(nn.Flatten(), nn.Linear(432, 12), nn.Flatten(0), nn.Unflatten(0, (12, 1))),
            layers=["3"],
        )
    with pytest.raises(InputError, match="cannot read images of 2 × 2 pixels"):
        small_backbone(preprocessing=Preprocessing((2, 2), (2, 2)))


# ---------------------------------------------------------------- those that come with layup


def test_bundled_facts(bundled: Backbone) -> None:
    assert bundled.depth == 17
    assert sum(layer.width for layer in bundled.layers) == 3088
    assert bundled.layers[-1] == Layer("head", 1280)
    assert bundled.default_k == 6
    assert json.loads(json.dumps(bundled.spec)) == bundled.spec


@pytest.mark.parametrize(("file", "label"), [("china.jpg", 698), ("flower.jpg", 985)])  # palace, daisy
def test_bundled_knows_imagenet(file: str, label: int) -> None:
    image = Image.fromarray(load_sample_image(file))
    preprocessing = Preprocessing(size=(224, 224), resize=(256, 256), crop="center")
    network = imagenet_network().eval()
    with torch.inference_mode():
        scores = network(preprocessing.transform(image).unsqueeze(0))
    assert scores.argmax().item() == label


def test_vit_nano_facts(nano: Backbone) -> None:
    assert nano.layers == tuple(Layer(f"blocks.{number}", 128) for number in range(12))
    assert (nano.preprocessing.size, nano.embedding_width, nano.default_k) == ((64, 64), 128, 6)
    assert {tensor.dtype for tensor in nano.network.state_dict().values()} == {torch.float32}
    with pytest.raises(InputError, match="only of 64 × 64"):
        load_backbone("vit-nano", input_size=96)


@pytest.mark.parametrize("name", ["bundled", "vit-nano"])
def test_those_that_come_with_layup_take_no_weights(name: str) -> None:
    assert name in BACKBONES
    with pytest.raises(InputError, match="takes no file"):
        load_backbone(name, weights="other.safetensors")


@pytest.mark.parametrize("size", [64, (96, 160)])
def test_bundled_reads_other_sizes(size: Any) -> None:
    backbone = load_backbone(input_size=size, device="cpu")
    assert backbone(random_batch(backbone, 1)).layers[-1].shape == (1, 1280)
    assert load_backbone(**backbone.spec or {}).preprocessing == backbone.preprocessing


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="The device 'cpuu' cannot be used"):
        load_backbone(device="cpuu")
    with pytest.raises(InputError, match="not an image size"):
        load_backbone(input_size=(1, 2, 3))
    with pytest.raises(InputError, match="not an image size"):
        load_backbone(input_size=-3)


# ---------------------------------------------------------------- timm's weights


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Whole classifiers, head included, as they are found on the hub."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(1)
    vit = timm.create_model("test_vit").state_dict()
    resnet = timm.create_model("test_resnet").state_dict()
    paths = {"vit": folder / "vit.safetensors", "resnet": folder / "resnet.pth", "bin": folder / "vit.bin"}
    save_file(vit, paths["vit"])
    torch.save(vit, paths["bin"])
    torch.save({"state_dict": resnet}, paths["resnet"])
    return paths


def test_weights_of_a_file(weights: dict[str, Path]) -> None:
    backbone = load_backbone("test_vit", weights=weights["vit"], device="cpu")
    assert backbone.name == "test_vit.r160_in1k"
    assert backbone.spec == {"name": backbone.name, "weights": str(weights["vit"]), "input_size": None}
    assert json.loads(json.dumps(backbone.spec)) == backbone.spec
    network: Any = timm.create_model("test_vit").eval()
    network.load_state_dict(torch.load(weights["bin"], weights_only=True))
    batch = random_batch(backbone)
    with torch.inference_mode():
        expected = network.forward_head(network.forward_features(batch), pre_logits=True)
    torch.testing.assert_close(backbone(batch).embedding, expected, **EXACT)
    assert load_backbone(**backbone.spec).fingerprint == backbone.fingerprint
    assert load_backbone("test_vit", weights=weights["bin"]).fingerprint == backbone.fingerprint


def test_weights_of_a_training_checkpoint(weights: dict[str, Path]) -> None:
    backbone = load_backbone("test_resnet.r160_in1k", weights=weights["resnet"], device="cpu")
    state = torch.load(weights["resnet"], weights_only=True)["state_dict"]
    own = backbone.network.state_dict()
    assert set(state) - set(own) == {"fc.weight", "fc.bias"}
    assert all(torch.equal(state[name], tensor) for name, tensor in own.items())


def test_weights_that_do_not_fit_are_refused(weights: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"do not fit 'test_resnet.r160_in1k': Missing key"):
        load_backbone("test_resnet", weights=weights["vit"])
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"not weights")
    with pytest.raises(DamagedFileError, match="cannot be read as weights"):
        load_backbone("test_vit", weights=broken)
    broken = tmp_path / "broken.pth"
    broken.write_bytes(b"not weights")
    with pytest.raises(DamagedFileError, match="cannot be read as weights"):
        load_backbone("test_vit", weights=broken)
    with pytest.raises(StorageError, match="There is no file"):
        load_backbone("test_vit", weights=tmp_path / "nothing.pth")


def test_more_weights_than_needed_are_left_out(weights: dict[str, Path], tmp_path: Path) -> None:
    state = torch.load(weights["bin"], weights_only=True)
    torch.save(state | {"decoder.weight": torch.ones(3)}, tmp_path / "more.pth")
    backbone = load_backbone("test_vit", weights=tmp_path / "more.pth")
    assert torch.equal(backbone.network.get_parameter("norm.weight"), state["norm.weight"])
    assert backbone.fingerprint == load_backbone("test_vit", weights=weights["vit"]).fingerprint


def test_a_vit_at_another_size_resamples_its_positions(weights: dict[str, Path]) -> None:
    backbone = load_backbone("test_vit", weights=weights["vit"], input_size=96, device="cpu")
    assert backbone.network.get_parameter("pos_embed").shape == (1, 1 + 6 * 6, 64)
    assert backbone(random_batch(backbone)).embedding.shape == (2, 64)
    assert backbone.spec is not None
    assert backbone.spec["input_size"] == [96, 96]
    assert load_backbone(**backbone.spec).fingerprint == backbone.fingerprint


def test_a_network_of_fixed_size_says_so(weights: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test_vit.r160_in1k' cannot"):
        load_backbone("test_vit", weights=weights["vit"], input_size=8)  # less than one patch
    torch.save(timm.create_model("mixer_s32_224").state_dict(), tmp_path / "mixer.pth")
    with pytest.raises(InputError, match="size mismatch"):
        load_backbone("mixer_s32_224", weights=tmp_path / "mixer.pth", input_size=96)


def test_a_convolutional_network_reads_any_size(weights: dict[str, Path]) -> None:
    backbone = load_backbone("test_resnet", weights=weights["resnet"], input_size=(64, 96), device="cpu")
    assert backbone(random_batch(backbone)).embedding.shape == (2, 96)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bundeld", "Unknown backbone 'bundeld'.*bundled, vit-nano, hf:NAME.*Did you mean 'bundled'"),
        ("vit_base_patch16_242", "Did you mean 'vit_base_patch16_224'"),
        ("test_vit.r160_in1kk", "Unknown test_vit weights 'r160_in1kk'. Known: .*Did you mean 'r160_in1k'"),
        ("no such thing", "Unknown backbone 'no such thing'"),
    ],
)
def test_unknown_names_are_guessed(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message) as caught:
        load_backbone(name)
    assert len(str(caught.value)) < 300


def test_without_internet_one_sentence_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(LayupError, match=r"'resnet18.a1_in1k' could not be downloaded") as caught:
        load_backbone("resnet18")
    for advice in ("a local copy of the weights", "'bundled' and 'vit-nano'"):
        assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_network_without_weights_says_so() -> None:
    with pytest.raises(InputError, match="no weights of 'nf_resnet26'"):
        load_backbone("nf_resnet26")


# ---------------------------------------------------------------- Hugging Face


def tokens_config(**more: Any) -> dict[str, Any]:
    return {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "image_size": 32,
        "patch_size": 8,
    } | more


def save_hf(folder: Path, kind: str) -> Any:
    """A tiny random network of a kind, saved with an image processor; gives back the network."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    square = {"size": {"height": 32, "width": 32}}
    processor = transformers.ViTImageProcessor(**square)
    if kind == "vit":
        model = transformers.ViTModel(transformers.ViTConfig(**tokens_config()))
    elif kind == "dinov2":
        config = tokens_config(mlp_ratio=2)
        del config["intermediate_size"]
        model = transformers.Dinov2Model(transformers.Dinov2Config(**config))
    elif kind == "clip":
        text = {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        config = transformers.CLIPConfig(
            vision_config=tokens_config(), text_config=tokens_config(**text), projection_dim=16
        )
        model = transformers.CLIPModel(config)
        processor = transformers.CLIPImageProcessor(
            size={"shortest_edge": 36}, crop_size={"height": 32, "width": 32}
        )
    elif kind == "convnext":
        sizes = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
        model = transformers.ConvNextModel(transformers.ConvNextConfig(**sizes))
        processor = transformers.ConvNextImageProcessor(size={"shortest_edge": 56}, crop_pct=0.875)
    elif kind == "resnet":
        sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
        model = transformers.ResNetModel(transformers.ResNetConfig(**sizes, layer_type="basic"))
    elif kind == "swin":
        model = transformers.SwinModel(
            transformers.SwinConfig(
                image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4
            )
        )
    else:
        model = transformers.BertModel(
            transformers.BertConfig(
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=48,
                vocab_size=50,
            )
        )
    model.eval().save_pretrained(folder)
    if kind != "bert":
        processor.save_pretrained(folder)
    return model


@pytest.mark.parametrize("kind", ["vit", "dinov2", "clip"])
def test_hf_transformers_give_class_tokens_before_the_final_norm(kind: str, tmp_path: Path) -> None:
    model = save_hf(tmp_path, kind)
    vision = getattr(model, "vision_model", model)
    backbone = load_backbone(f"hf:{tmp_path}", device="cpu")
    assert [layer.width for layer in backbone.layers] == [32, 32, 32]
    assert backbone.spec is not None
    assert load_backbone(**backbone.spec).fingerprint == backbone.fingerprint
    batch = random_batch(backbone)
    seen = backbone(batch)
    blocks = {"vit": "layers", "dinov2": "encoder.layer", "clip": "encoder.layers"}[kind]
    outputs: list[Any] = []
    for block in vision.get_submodule(blocks):
        block.register_forward_hook(lambda _m, _i, out: outputs.append(out))
    with torch.inference_mode():
        output = vision(batch)
    for vector, tokens in zip(seen.layers, outputs, strict=True):
        tokens = tokens[0] if isinstance(tokens, tuple) else tokens
        torch.testing.assert_close(vector, tokens[:, 0], **EXACT)
    if kind == "clip":
        expected = vision.post_layernorm(output.last_hidden_state[:, 0].clone())
        assert (backbone.preprocessing.resize, backbone.preprocessing.crop) == ((36, 36), "center")
    else:
        expected = output.last_hidden_state[:, 0]
        torch.testing.assert_close(vision.layernorm(seen.layers[-1].clone()), seen.embedding, **EXACT)
    torch.testing.assert_close(seen.embedding, expected, **EXACT)


@pytest.mark.parametrize(
    ("kind", "widths"),
    [
        ("convnext", [8, 16, 24, 24, 32]),
        ("resnet", [8, 16, 24, 24, 32]),
        ("swin", [16, 32, 32]),
    ],
)
def test_hf_networks_of_maps_give_means_of_blocks(kind: str, widths: list[int], tmp_path: Path) -> None:
    model = save_hf(tmp_path, kind)
    backbone = load_backbone(f"hf:{tmp_path}", device="cpu")
    assert [layer.width for layer in backbone.layers] == widths
    batch = random_batch(backbone)
    seen = backbone(batch)
    with torch.inference_mode():
        output = model(batch, output_hidden_states=True)
    torch.testing.assert_close(seen.embedding, output.pooler_output.flatten(1), rtol=1e-3, atol=1e-4)
    if kind != "swin":  # whose hidden states are after the next downsampling
        torch.testing.assert_close(
            seen.layers[-1], output.hidden_states[-1].mean((2, 3)), rtol=1e-3, atol=1e-4
        )
    if kind == "convnext":
        assert (backbone.preprocessing.resize, backbone.preprocessing.size) == ((64, 64), (56, 56))


@pytest.mark.parametrize("kind", ["vit", "clip", "convnext"])
def test_hf_preprocessing_is_the_processors(kind: str, tmp_path: Path) -> None:
    save_hf(tmp_path, kind)
    transformers = pytest.importorskip("transformers")
    backbone = load_backbone(f"hf:{tmp_path}", device="cpu")
    ramp = np.linspace(0, 255, 90 * 120 * 3).reshape(90, 120, 3).astype(np.uint8)
    image = Image.fromarray(ramp)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    expected = processor(image, return_tensors="pt")["pixel_values"][0]
    # Transformers resizes tensors, layup images: a grey level of 256 apart, for rounding.
    torch.testing.assert_close(backbone.preprocess(image), expected, rtol=0, atol=0.05)


def test_hf_refuses_text_and_folders_without_a_model(tmp_path: Path) -> None:
    save_hf(tmp_path / "bert", "bert")
    with pytest.raises(InputError, match="BertModel, which does not read images"):
        load_backbone(f"hf:{tmp_path / 'bert'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LayupError, match="could not be loaded"):
        load_backbone(f"hf:{tmp_path / 'empty'}")
    save_hf(tmp_path / "vit", "vit")
    (tmp_path / "vit" / "preprocessor_config.json").unlink()
    with pytest.raises(LayupError, match="does not say how to prepare images"):
        load_backbone(f"hf:{tmp_path / 'vit'}")
    with pytest.raises(StorageError, match=r"no folder .*x.pth"):
        load_backbone(f"hf:{tmp_path / 'vit'}", weights="x.pth")


def test_an_hf_folder_is_found_from_any_folder_and_may_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_hf(tmp_path / "vit", "vit")
    monkeypatch.chdir(tmp_path)
    first = load_backbone("hf:vit")
    monkeypatch.chdir("/")
    assert first.spec is not None
    assert load_backbone(**first.spec).fingerprint == first.fingerprint
    (tmp_path / "vit").rename(tmp_path / "moved")
    with pytest.raises(StorageError, match="no folder"):
        load_backbone(**first.spec)
    moved = load_backbone(**{**first.spec, "weights": str(tmp_path / "moved")})
    assert moved.fingerprint == first.fingerprint


def test_full_names_are_those_of_the_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_hf(tmp_path / "vit", "vit")
    monkeypatch.chdir(tmp_path)
    for name in ("vit-nano", "hf:vit", f"hf:{tmp_path / 'vit'}"):
        assert full_name(name) == load_backbone(name).name
    assert full_name("resnet18") == full_name("resnet18.a1_in1k") == "resnet18.a1_in1k"
    assert full_name("nonsense") == "nonsense"
    assert full_name("hf:facebook/dinov2-small") == "hf:facebook/dinov2-small"


def test_hf_refuses_incomplete_weights(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    save_hf(tmp_path, "vit")
    file = tmp_path / "model.safetensors"
    state = load_file(file)
    del state["layernorm.weight"]
    save_file(state, file, {"format": "pt"})
    with pytest.raises(
        InputError, match=r"lacks 1 of the weights of its ViTModel, such as 'layernorm.weight'"
    ):
        load_backbone(f"hf:{tmp_path}")


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'layup-cl\[hf\]'"):
        load_backbone("hf:anything")


# ---------------------------------------------------------------- torchvision next to another torch


@pytest.mark.slow
def test_compat_works_before_and_after_a_failed_import() -> None:
    code = """
try:
    import torchvision
except RuntimeError:
    pass
import layup.compat
import torchvision, timm
import torchvision.transforms.v2
import importlib; importlib.reload(layup.compat)
assert torchvision.__version__ and timm.create_model("test_resnet")
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)
