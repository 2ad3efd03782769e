from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache, partial
from typing import Any

import layup.compat  # noqa: F401  # isort: skip  (before timm and torchvision)
import pytest
import timm
import torch
from timm.layers import LayerNorm2d, SwiGLU, SwiGLUPacked
from timm.layers.hybrid_embed import HybridEmbed
from timm.models.beit import Beit
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva
from timm.models.metaformer import LayerNorm2dNoBias
from timm.models.vision_transformer import (
    DiffParallelScalingBlock,
    ParallelScalingBlock,
    ParallelThingsBlock,
    ResPostBlock,
    VisionTransformer,
)
from torch import Tensor, nn

from layup.adapters import (
    ADAPTERS,
    SSF,
    VPT,
    AdaptedBackbone,
    Adapter,
    AdaptFormer,
    Full,
    LoRA,
    adapter_from,
    reattached,
    usual_adapter,
)
from layup.backbones import Backbone, Preprocessing, load_backbone
from layup.backbones.timm_models import timm_backbone
from layup.errors import InputError, MismatchError, UnknownNameError

EXACT: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # float32, and sums in another order
NOISE = 1e-4  # gradients that are zero up to rounding are far below, all others far above

SMALL: dict[str, Any] = {
    "img_size": 32,
    "patch_size": 8,
    "embed_dim": 24,
    "depth": 2,
    "num_heads": 2,
    "mlp_ratio": 2.0,
    "num_classes": 0,
}


def vit(**changes: Any) -> VisionTransformer:
    return VisionTransformer(**(SMALL | changes))


def eva(**changes: Any) -> Eva:
    return Eva(**(SMALL | {"global_pool": "token"} | changes))


def stem(in_chans: int, embed_dim: int, **rest: Any) -> HybridEmbed:
    """Convolutions whose maps are the tokens: no projection at the end."""
    convolutions = nn.Sequential(nn.Conv2d(in_chans, embed_dim, 8, 8), nn.GELU())
    del rest["patch_size"]
    return HybridEmbed(convolutions, in_chans=in_chans, embed_dim=embed_dim, proj=False, **rest)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "vit": vit,
    "vit, mean": partial(vit, class_token=False, global_pool="avg"),
    "vit, mean beside a class token": partial(vit, global_pool="avg"),
    "vit, layer scale": partial(vit, init_values=1e-5),
    "vit, registers": partial(vit, reg_tokens=3),
    "vit, mean beside registers": partial(vit, class_token=False, reg_tokens=3, global_pool="avg"),
    "vit, norms in attention": partial(vit, qk_norm=True, scale_attn_norm=True, scale_mlp_norm=True),
    "vit, norm before": partial(vit, pre_norm=True),
    "vit, deep and wide": partial(vit, depth=5, embed_dim=32, num_heads=4),
    "vit, differential": partial(vit, attn_layer="diff"),
    "vit, swiglu": partial(vit, mlp_layer=SwiGLU),
    "vit, packed swiglu": partial(vit, mlp_layer=SwiGLUPacked),
    "vit, attention pool": partial(vit, class_token=False, global_pool="map"),
    "vit, post-norm": partial(vit, block_fn=ResPostBlock, init_values=1e-5),
    "vit, parallel": partial(vit, block_fn=ParallelScalingBlock, init_values=1e-5),
    "vit, parallel with norms": partial(vit, block_fn=ParallelScalingBlock, qkv_bias=False, qk_norm=True),
    "vit, parallel differential": partial(vit, block_fn=DiffParallelScalingBlock),
    "vit, parallel things": partial(vit, block_fn=ParallelThingsBlock, init_values=1e-5),
    "vit, stem": partial(vit, embed_layer=stem),
    "deit": partial(VisionTransformerDistilled, **SMALL),
    "eva": eva,
    "eva, mean": partial(eva, global_pool="avg"),
    "eva, unfused": partial(eva, qkv_fused=False),
    "eva, no biases": partial(eva, qkv_bias=False),
    "eva, layer scale": partial(eva, init_values=1e-5),
    "eva, layer scale of attention": partial(eva, init_values=1e-5, attn_only_layer_scale=True),
    "eva, rotary": partial(eva, use_rot_pos_emb=True, num_reg_tokens=2),
    "eva, rotary without prefix": partial(eva, use_rot_pos_emb=True, class_token=False, global_pool="avg"),
    "eva, rotary and mixed": partial(eva, use_rot_pos_emb=True, rope_type="mixed", attn_type="rope"),
    "eva, rotary and unfused": partial(eva, use_rot_pos_emb=True, attn_type="rope", qkv_fused=False),
    "eva, rotary and grouped": partial(
        eva, use_rot_pos_emb=True, attn_type="rope", qkv_fused=False, num_kv_heads=1
    ),
    "eva, dino v3": partial(
        eva, use_rot_pos_emb=True, rope_type="dinov3", rope_rotate_half=True, init_values=1e-5
    ),
    "eva, rope attention without": partial(eva, attn_type="rope", qkv_fused=False),
    "eva, swiglu": partial(eva, swiglu_mlp=True, scale_mlp=True, scale_attn_inner=True),
    "eva, packed swiglu": partial(eva, swiglu_mlp=True, attn_type="rope"),
    "eva, post-norm": partial(eva, use_post_norm=True),
    "eva, attention pool": partial(eva, global_pool="map"),
    "beit": partial(Beit, **SMALL, init_values=1e-5, use_rel_pos_bias=True),
    "beit, shared bias": partial(Beit, **SMALL, use_shared_rel_pos_bias=True),
    "beit, no bias": partial(Beit, **SMALL),
}
ADAPTED: dict[str, Adapter] = {
    "adaptformer": AdaptFormer(width=16),
    "ssf": SSF(),
    "vpt, deep": VPT(tokens=3),
    "vpt, shallow": VPT(tokens=3, depth="shallow"),
    "vpt, shared": VPT(tokens=3, depth="shared"),
    "lora": LoRA(rank=3, alpha=6.0),
    "full": Full(),
}


def refused(network: str, adapter: str) -> bool:
    kind = adapter.partition(",")[0]
    return (
        (network.startswith("vit, parallel") and kind == "lora")
        or (network.startswith("beit") and kind == "adaptformer")
        or (network in ("beit", "beit, shared bias") and kind == "vpt")
    )


PAIRS = [(network, adapter) for network in NETWORKS for adapter in ADAPTED]
FITTING = [pair for pair in PAIRS if not refused(*pair)]
REFUSED = [pair for pair in PAIRS if refused(*pair)]
ZERO_AT_FIRST = ("adaptformer", "lora")


def randomised(network: nn.Module) -> nn.Module:
    """Values that show every mistake: no zeros, no equal scales, no tiny ones."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if value.ndim > 1:
                value.normal_(0, 1 / math.sqrt(value[0].numel()), generator=generator)
            elif name.endswith(("weight", "gamma", "gamma_1", "gamma_2")):
                value.uniform_(0.5, 1.5, generator=generator)
            else:
                value.normal_(0, 0.3, generator=generator)
        for name, value in network.named_buffers():
            if name.endswith("running_mean"):
                value.normal_(0, 0.3, generator=generator)
            elif name.endswith("running_var"):
                value.uniform_(0.5, 1.5, generator=generator)
    return network


def of_network(network: nn.Module, name: str = "tiny", size: int = 32, device: str = "cpu") -> Backbone:
    preprocessing = Preprocessing((size, size), (size, size), "squash")
    return timm_backbone(network, preprocessing, name=name, spec=None, device=torch.device(device))


@cache
def base(name: str = "vit") -> Backbone:
    """Shared by all tests, which leave it as it is."""
    torch.manual_seed(0)
    return of_network(randomised(NETWORKS[name]()), name)


@cache
def fresh(network: str, adapter: str) -> AdaptedBackbone:
    """As attached, for tests that only look at it."""
    return AdaptedBackbone(base(network), ADAPTED[adapter])


def conv_base(name: str) -> Backbone:
    if name == "bundled":
        return load_backbone("bundled", input_size=64, device="cpu")
    torch.manual_seed(0)
    return of_network(randomised(timm.create_model(name, num_classes=0)), name, 64)


def own(*modules: nn.Module, layers: list[str]) -> Backbone:
    torch.manual_seed(0)
    return Backbone.from_module(nn.Sequential(*modules), layers, Preprocessing((8, 8), (8, 8), "squash"))


def batch_for(backbone: Backbone, images: int = 4) -> Tensor:
    return torch.randn(images, 3, *backbone.preprocessing.size, generator=torch.Generator().manual_seed(0))


def features(backbone: Backbone) -> list[Tensor]:
    seen = backbone(batch_for(backbone))
    return [*seen.layers, seen.embedding]


def assert_same(ours: list[Tensor], theirs: list[Tensor], **tolerance: Any) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, **(tolerance or EXACT))


def perturbed(adapted: AdaptedBackbone, spread: float = 0.3) -> AdaptedBackbone:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in adapted.state().values():
            value += spread * torch.randn(value.shape, generator=generator)
    adapted.refresh()
    return adapted


def gradients(adapted: AdaptedBackbone) -> dict[str, Tensor]:
    """Of a random linear function of the embedding."""
    torch.manual_seed(0)  # for dropout
    adapted.train()
    embedding = adapted.embed(batch_for(adapted))
    weights = torch.randn(embedding.shape, generator=torch.Generator().manual_seed(2))
    (embedding * weights).sum().backward()
    adapted.train(False)
    return {name: value.grad for name, value in adapted.state().items() if value.grad is not None}


def stepped(adapted: AdaptedBackbone) -> AdaptedBackbone:
    gradients(adapted)
    torch.optim.SGD(adapted.state().values(), lr=0.1).step()
    adapted.refresh()
    return adapted


# ---------------------------------------------------------------- how much is tuned


@cache
def vit_b() -> Backbone:
    """Its shapes, without any weights."""
    with torch.device("meta"):
        network = timm.create_model("vit_base_patch16_224", num_classes=0)
        return of_network(network, size=224, device="meta")


@pytest.mark.parametrize(
    ("adapter", "count"),
    [
        (AdaptFormer(), 1_189_632),
        (AdaptFormer(width=16), 12 * (2 * 16 * 768 + 16 + 768)),
        (SSF(final_norm=False), 204_288),
        (SSF(), 205_824),
        (VPT(tokens=5), 12 * 5 * 768),
        (VPT(tokens=5, depth="shallow"), 5 * 768),
        (VPT(tokens=10, depth="shared"), 7_680),
        (LoRA(rank=8), 12 * 8 * ((768 + 3 * 768) + (768 + 768))),
        (Full(), 85_798_656),
    ],
)
def test_vit_b_has_as_many_tuned_values_as_the_papers_say(adapter: Adapter, count: int) -> None:
    with torch.device("meta"):
        adapted = AdaptedBackbone(vit_b(), adapter)
    assert adapted.tuned_values == count == adapted.to_dict()["tuned_values"]


# ---------------------------------------------------------------- families of networks


@pytest.mark.parametrize(("network", "adapter"), [pair for pair in FITTING if pair[1] in ZERO_AT_FIRST])
def test_at_first_nothing_changes(network: str, adapter: str) -> None:
    assert_same(features(fresh(network, adapter)), features(base(network)))


@pytest.mark.parametrize("network", NETWORKS)
def test_ssf_starts_near_what_was(network: str) -> None:
    for changed, plain in zip(features(fresh(network, "ssf")), features(base(network)), strict=True):
        assert 1e-4 < (changed - plain).abs().max() < 2


def cannot_matter(network: str, adapter: str) -> Iterator[str]:
    """The same vector added to all keys adds the same number to all scores of a query: softmax drops it.

    Rotary positions turn it differently for every position, so there it does matter.
    """
    parts = {
        ("eva, unfused", "ssf"): "attn.k_proj.shift",
        ("eva, rope attention without", "ssf"): "attn.k_proj.shift",
        ("eva, rope attention without", "full"): "attn.k_proj.bias",
        ("vit, norms in attention", "full"): "attn.k_norm.bias",
        ("vit, parallel with norms", "full"): "k_norm.bias",
    }
    part = parts.get((network, adapter))
    return (f"blocks.{block}.{part}" for block in range(SMALL["depth"]) if part)


@pytest.mark.parametrize(("network", "adapter"), FITTING)
def test_all_that_is_tuned_matters_and_no_shape_changes(network: str, adapter: str) -> None:
    adapted = perturbed(AdaptedBackbone(base(network), ADAPTED[adapter]))
    assert adapted.layers == base(network).layers
    for changed, plain in zip(features(adapted), features(base(network)), strict=True):
        assert changed.shape == plain.shape
        assert (changed - plain).abs().max() > 1e-3
    found = gradients(adapted)
    assert found.keys() == adapted.state().keys()
    still = {name for name, gradient in found.items() if gradient.abs().max() < NOISE}
    assert still == set(cannot_matter(network, adapter))


@pytest.mark.parametrize(("network", "adapter"), FITTING)
def test_the_base_stays_as_it_is(network: str, adapter: str) -> None:
    backbone = base(network)
    weights = deepcopy(backbone.network.state_dict())
    fingerprint, before = backbone.fingerprint, features(backbone)
    stepped(perturbed(AdaptedBackbone(backbone, ADAPTED[adapter])))
    backbone.refresh()
    assert backbone.fingerprint == fingerprint
    after = backbone.network.state_dict()
    assert weights.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in weights.items())
    assert not any(value.requires_grad for value in backbone.network.parameters())
    assert not any(module.training for module in backbone.network.modules())
    assert_same(features(backbone), before, rtol=0, atol=0)


@pytest.mark.parametrize(("network", "adapter"), REFUSED)
def test_what_does_not_fit_is_refused_with_what_does(network: str, adapter: str) -> None:
    why = {
        "adaptformer": r"does not know how 'blocks.0', a timm.models.beit.Block, uses its MLP. Use 'ssf'",
        "vpt": r"cannot add tokens to 'blocks.0': .*prompts have no position. Use 'lora'",
        "lora": r"does not find the attention of 'blocks.0', a \w*Parallel\w*Block: .*. Use 'adaptformer'",
    }
    with pytest.raises(InputError, match=why[ADAPTED[adapter].name]):
        AdaptedBackbone(base(network), ADAPTED[adapter])


@pytest.mark.parametrize("adapter", [AdaptFormer(), VPT(), LoRA()])
def test_what_is_for_transformers_is_refused_by_others(adapter: Adapter) -> None:
    with pytest.raises(InputError, match=rf"'{adapter.name}' .* not to ResNet. Use 'ssf' or 'full'"):
        AdaptedBackbone(conv_base("test_resnet"), adapter)


def plain_settings(module: nn.Module) -> tuple[Any, ...]:
    """All settings of a module, except the two that adapters change."""
    changed = {"num_prefix_tokens", "qkv_bias_separate"}
    kept = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, bool | int | float | str | tuple) and name not in changed
    }
    return type(module), module.extra_repr(), tuple(sorted(kept.items()))


@pytest.mark.parametrize(("network", "adapter"), [pair for pair in FITTING if pair[1] != "full"])
def test_the_networks_own_modules_keep_their_settings_and_share_their_weights(
    network: str, adapter: str
) -> None:
    before, after = base(network).network, fresh(network, adapter).network
    tensors = [*before.parameters(), *before.buffers()]
    assert {id(tensor) for tensor in tensors} <= {id(t) for t in (*after.parameters(), *after.buffers())}
    leaves = [part for part in before.modules() if list(part.parameters()) and not list(part.children())]
    twins = {tuple(map(id, part.parameters())): part for part in after.modules()}
    assert leaves
    for leaf in leaves:
        twin = twins[tuple(map(id, leaf.parameters()))]
        assert twin is not leaf
        assert plain_settings(twin) == plain_settings(leaf)
    missing = Counter(map(plain_settings, before.modules())) - Counter(map(plain_settings, after.modules()))
    assert not missing


def test_full_has_weights_of_its_own() -> None:
    adapted = AdaptedBackbone(base(), Full())
    ours = {value.data_ptr() for value in adapted.network.parameters()}
    assert ours.isdisjoint(value.data_ptr() for value in base().network.parameters())
    assert adapted.state().keys() == dict(base().network.named_parameters()).keys()


# ---------------------------------------------------------------- formulas, by hand


def walk(network: Any, batch: Tensor, step: Callable[[int, nn.Module, Tensor], Tensor]) -> list[Tensor]:
    """The layers of a plain ViT and its embedding, each block replaced by a step."""
    tokens = network.norm_pre(network._pos_embed(network.patch_embed(batch)))
    layers = []
    for place, block in enumerate(network.blocks):
        tokens = step(place, block, tokens)
        prefix = network.num_prefix_tokens
        layers.append(tokens[:, 0] if network.has_class_token else tokens[:, prefix:].mean(1))
    return [*layers, network.forward_head(network.norm(tokens))]


PLAIN = ["vit", "vit, mean", "vit, mean beside registers", "vit, layer scale", "vit, norm before"]


@pytest.mark.parametrize("name", PLAIN)
def test_adaptformer_is_its_formula(name: str) -> None:
    adapted = perturbed(AdaptedBackbone(base(name), AdaptFormer(width=5)))
    tuned = adapted.state()

    def step(place: int, block: Any, tokens: Tensor) -> Tensor:
        down, down_bias, up, up_bias = (
            tuned[f"blocks.{place}.mlp.{part}"]
            for part in ("down.weight", "down.bias", "up.weight", "up.bias")
        )
        attended = tokens + block.ls1(block.attn(block.norm1(tokens)))
        narrow = torch.clamp(attended @ down.T + down_bias, min=0)
        bottleneck = 0.1 * (narrow @ up.T + up_bias)
        return attended + block.ls2(block.mlp(block.norm2(attended))) + bottleneck

    assert_same(features(adapted), walk(base(name).network, batch_for(adapted), step))


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("vit", ["proj", "qkv"]),
        ("vit, differential", ["proj", "qkv"]),
        ("eva", ["proj", "qkv"]),
        ("eva, unfused", ["k_proj", "proj", "q_proj", "v_proj"]),
        ("eva, rotary and grouped", ["k_proj", "proj", "q_proj", "v_proj"]),
        ("beit", ["proj", "qkv"]),
    ],
)
def test_lora_is_a_merged_weight(name: str, wrapped: list[str]) -> None:
    adapted = perturbed(AdaptedBackbone(base(name), LoRA(rank=3, alpha=6.0)))
    merged, tuned = deepcopy(base(name)), adapted.state()
    projections = [f"blocks.{place}.attn.{part}" for place in range(2) for part in wrapped]
    assert sorted(tuned) == sorted(f"{name}.{part}" for name in projections for part in ("down", "up"))
    for projection in projections:
        weight = merged.network.get_parameter(f"{projection}.weight")
        weight += 6.0 / 3 * tuned[f"{projection}.up"].detach() @ tuned[f"{projection}.down"].detach()
    assert_same(features(adapted), features(merged))


class ChannelsFirstNorm(nn.LayerNorm):
    """As Hugging Face has them."""

    data_format = "channels_first"

    def forward(self, maps: Tensor) -> Tensor:
        return super().forward(maps.movedim(1, -1)).movedim(-1, 1)


@pytest.mark.parametrize(
    ("module", "innermost"),
    [
        (nn.Conv2d(3, 5, 3), False),
        (nn.GroupNorm(1, 3), False),
        (LayerNorm2d(3), False),
        (LayerNorm2dNoBias(3), False),
        (ChannelsFirstNorm(3), False),
        (nn.Linear(8, 5), True),
        (nn.LayerNorm(8), True),
    ],
    ids=["Conv2d", "GroupNorm", "LayerNorm2d", "LayerNorm2dNoBias", "channels first", "Linear", "LayerNorm"],
)
def test_ssf_scales_and_shifts_channels(module: nn.Module, innermost: bool) -> None:
    backbone = own(randomised(module), nn.Flatten(), layers=["0"])
    adapted = perturbed(AdaptedBackbone(backbone, SSF()))
    scale, shift = (adapted.state()[f"0.{part}"] for part in ("scale", "shift"))
    batch = batch_for(adapted)
    plain = module(batch).movedim(-1 if innermost else 1, -1)
    expected = (scale * plain + shift).movedim(-1, -1 if innermost else 1)
    torch.testing.assert_close(adapted.embed(batch), expected.flatten(1), **EXACT)


def test_ssf_leaves_batch_norms_alone_and_follows_all_else() -> None:
    backbone = own(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Linear(6, 5), layers=["0"])
    assert list(AdaptedBackbone(backbone, SSF()).state()) == ["0.scale", "0.shift", "3.scale", "3.shift"]


@pytest.mark.parametrize(
    ("name", "norms"),
    [
        ("vit, norms in attention", {"norm1", "norm2"}),
        ("vit, parallel with norms", {"in_norm"}),
        ("vit, parallel differential", {"in_norm"}),
        ("vit, parallel things", {"attns.0.norm", "attns.1.norm", "ffns.0.norm", "ffns.1.norm"}),
        ("eva, post-norm", {"norm1", "norm2"}),
    ],
)
def test_ssf_follows_the_norms_of_tokens_but_not_those_of_heads(name: str, norms: set[str]) -> None:
    tuned = AdaptedBackbone(base(name), SSF()).state()
    first, scale = "blocks.0.", ".scale"
    scaled = {key[len(first) : -len(scale)] for key in tuned if key.startswith(first) and key.endswith(scale)}
    assert {key for key in scaled if "norm" in key} == norms


@pytest.mark.parametrize(("name", "norm"), [("vit", "norm"), ("vit, mean", "fc_norm"), ("beit", "fc_norm")])
def test_ssf_may_leave_the_final_norm_alone(name: str, norm: str) -> None:
    with_it, without = (
        AdaptedBackbone(base(name), SSF(final_norm=final_norm)).state().keys() for final_norm in (True, False)
    )
    assert with_it - without == {f"{norm}.scale", f"{norm}.shift"}


@pytest.mark.parametrize("name", PLAIN)
def test_deep_prompts_are_seen_by_one_block_only(name: str) -> None:
    adapted = perturbed(AdaptedBackbone(base(name), VPT(tokens=3)))
    tuned = adapted.state()

    def step(place: int, block: nn.Module, tokens: Tensor) -> Tensor:
        prompts = tuned[f"blocks.{place}.prompts"].expand(len(tokens), -1, -1)
        return block(torch.cat([prompts, tokens], dim=1))[:, 3:]

    assert_same(features(adapted), walk(base(name).network, batch_for(adapted), step))


@pytest.mark.parametrize("name", PLAIN)
def test_shallow_prompts_go_through_all_blocks_beside_the_image(name: str) -> None:
    adapted = perturbed(AdaptedBackbone(base(name), VPT(tokens=3, depth="shallow")))
    prompts = adapted.state()["blocks.0.prompts"].expand(4, -1, -1)

    def step(place: int, block: nn.Module, tokens: Tensor) -> Tensor:
        nonlocal prompts
        both = block(torch.cat([prompts, tokens], dim=1))
        prompts = both[:, :3]
        return both[:, 3:]

    assert_same(features(adapted), walk(base(name).network, batch_for(adapted), step))


@pytest.mark.parametrize("name", [name for name in NETWORKS if "rotary" in name or "dino" in name])
def test_prompts_leave_rotary_positions_where_they_are(name: str) -> None:
    """Hidden from the image by a mask, prompts change nothing: so the image's tokens are turned as before."""
    network: Any = base(name).network
    adapted: Any = AdaptedBackbone(base(name), VPT(tokens=3)).network
    tokens, rope = network._pos_embed(network.patch_embed(batch_for(base(name))))
    rope = rope[0] if network.rope_mixed else rope
    count = tokens.shape[1]
    hidden = torch.zeros(count + 3, count + 3).index_fill(1, torch.arange(3), -math.inf)
    hidden[:3] = 0
    expected = network.blocks[0](tokens, rope=rope)
    torch.testing.assert_close(adapted.blocks[0](tokens, rope=rope, attn_mask=hidden), expected, **EXACT)
    unturned = network.blocks[0](tokens)
    assert (unturned - expected).abs().max() > 1e-3


# ---------------------------------------------------------------- prompts


def test_every_block_has_deep_prompts_of_its_own() -> None:
    tuned = AdaptedBackbone(base("vit, deep and wide"), VPT(tokens=3)).state()
    assert list(tuned) == [f"blocks.{place}.prompts" for place in range(5)]
    assert len({value.data_ptr() for value in tuned.values()}) == 5
    first, second, *_ = tuned.values()
    assert not torch.equal(first, second)


def test_shared_prompts_are_one_parameter() -> None:
    adapted = AdaptedBackbone(base("vit, deep and wide"), VPT(tokens=3, depth="shared"))
    blocks: Any = adapted.network.get_submodule("blocks")
    assert all(block.prompts is blocks[0].prompts for block in blocks)
    assert list(adapted.state()) == ["blocks.0.prompts"]


def test_every_prompt_of_every_block_gets_a_gradient() -> None:
    adapted = AdaptedBackbone(base("vit, deep and wide"), VPT(tokens=3))
    for gradient in gradients(adapted).values():
        assert (gradient.abs().amax(dim=1) > NOISE).all()


def test_uniform_prompts_fill_the_papers_range() -> None:
    tuned = AdaptedBackbone(base(), VPT(tokens=50)).state()
    bound = math.sqrt(6 / (3 * 8 * 8 + 24))
    for prompts in tuned.values():
        assert 0.95 * bound < prompts.max() <= bound
        assert -bound <= prompts.min() < -0.95 * bound


@pytest.mark.parametrize("depth", ["deep", "shallow", "shared"])
def test_prompts_that_start_at_zero_stay_equal(depth: Any) -> None:
    for start, equal in (("zero", True), ("uniform", False)):
        adapted = stepped(AdaptedBackbone(base(), VPT(tokens=3, depth=depth, start=start)))
        for prompts in adapted.state().values():
            assert prompts.abs().max() > 1e-4
            assert torch.allclose(prompts, prompts[:1].expand(3, -1), atol=1e-6) == equal


# ---------------------------------------------------------------- convolutional networks

CONVOLUTIONAL = ["bundled", "test_resnet", "test_convnext", "test_efficientnet", "test_mambaout"]


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_ssf_fits_networks_of_maps(name: str) -> None:
    backbone = conv_base(name)
    adapted = perturbed(AdaptedBackbone(backbone, SSF()), 0.05)
    assert adapted.layers == backbone.layers
    for changed, plain in zip(features(adapted), features(backbone), strict=True):
        assert changed.shape == plain.shape
        assert (changed - plain).abs().max() > 1e-4
    convolutions = [module for module in backbone.network.modules() if isinstance(module, nn.Conv2d)]
    assert len(adapted.state()) >= 2 * len(convolutions)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_every_scale_and_shift_gets_a_gradient(name: str) -> None:
    found = gradients(AdaptedBackbone(conv_base(name), SSF()))
    assert found
    assert [key for key, gradient in found.items() if gradient.abs().max() < NOISE] == []


@pytest.mark.parametrize("adapter", [SSF(), Full()])
@pytest.mark.parametrize("name", ["bundled", "test_resnet"])
def test_training_leaves_the_statistics_of_batch_norms(name: str, adapter: Adapter) -> None:
    adapted = AdaptedBackbone(conv_base(name), adapter)
    before = {key: value.clone() for key, value in adapted.network.named_buffers()}
    stepped(adapted)
    assert any(key.endswith("running_var") for key in before)
    for key, value in adapted.network.named_buffers():
        assert torch.equal(value, before[key]), key


# ---------------------------------------------------------------- a backbone with an adapter in it


def test_fingerprints_tell_adapters_apart() -> None:
    adapters = [AdaptFormer(width=5), AdaptFormer(width=5, scale=0.2), AdaptFormer(width=6), SSF(), Full()]
    fingerprints = {AdaptedBackbone(base(), adapter).fingerprint for adapter in adapters}
    assert len(fingerprints | {base().fingerprint}) == len(adapters) + 1


@pytest.mark.parametrize("adapter", [AdaptFormer(), SSF(), VPT(), LoRA()], ids=lambda adapter: adapter.name)
def test_the_seed_decides_the_first_values(adapter: Adapter) -> None:
    first, again, other = (AdaptedBackbone(base(), adapter, seed=seed) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert all(torch.equal(value, again.state()[name]) for name, value in first.state().items())


def test_the_fingerprint_follows_training_and_preprocessing() -> None:
    adapted = AdaptedBackbone(base(), SSF())
    fresh = adapted.fingerprint
    assert stepped(adapted).fingerprint != fresh
    other = Preprocessing((32, 32), (36, 36))
    assert AdaptedBackbone(base(), SSF(), preprocessing=other).fingerprint != fresh


@pytest.mark.parametrize("adapter", ADAPTED)
def test_a_state_can_be_loaded(adapter: str) -> None:
    trained = stepped(perturbed(AdaptedBackbone(base(), ADAPTED[adapter])))
    fresh = AdaptedBackbone(base(), ADAPTED[adapter], seed=5)
    assert fresh.fingerprint != trained.fingerprint
    fresh.load_state({name: value.detach().clone() for name, value in trained.state().items()})
    assert fresh.fingerprint == trained.fingerprint
    assert_same(features(fresh), features(trained), rtol=0, atol=0)


def test_a_state_of_something_else_is_refused() -> None:
    adapted = AdaptedBackbone(base(), AdaptFormer(width=5))
    good = {name: value.detach().clone() for name, value in adapted.state().items()}
    fingerprint = adapted.fingerprint
    short = {name: value for name, value in good.items() if name != "blocks.1.mlp.up.bias"}
    with pytest.raises(MismatchError, match=r"7 tensors .* has 8; .* 'blocks.1.mlp.up.bias'"):
        adapted.load_state(short)
    with pytest.raises(MismatchError, match=r"is 'blocks.0.mlp.down.weight'"):
        adapted.load_state({**good, "blocks.0.mlp.down.weight": torch.zeros(6, 24)})
    with pytest.raises(MismatchError, match="is 'surplus'"):
        adapted.load_state({**good, "surplus": torch.zeros(1)})
    adapted.refresh()
    assert adapted.fingerprint == fingerprint


def test_an_adapted_backbone_is_not_adapted_again() -> None:
    with pytest.raises(InputError, match=r"'vit' has an adapter already, 'ssf'. Adapt the backbone"):
        AdaptedBackbone(AdaptedBackbone(base(), SSF()), LoRA())


def test_dropout_is_on_in_training_only() -> None:
    adapted = perturbed(AdaptedBackbone(base(), AdaptFormer(dropout=0.5)))
    batch = batch_for(adapted)
    torch.manual_seed(0)
    assert torch.equal(adapted.embed(batch), adapted.embed(batch))
    adapted.train()
    assert not torch.equal(adapted.embed(batch), adapted.embed(batch))
    adapted.train(False)
    assert torch.equal(adapted.embed(batch), adapted.embed(batch))


@pytest.mark.parametrize("adapter", ADAPTED)
def test_only_in_training_does_anything_want_gradients(adapter: str) -> None:
    adapted = AdaptedBackbone(base(), ADAPTED[adapter])
    tuned = {id(value) for value in adapted.state().values()}
    for mode in (False, True, False):
        adapted.train(mode)
        wanting = {id(value) for value in adapted.network.parameters() if value.requires_grad}
        assert wanting == (tuned if mode else set())
        assert adapted.embed(batch_for(adapted)).requires_grad == mode


@pytest.mark.parametrize("adapter", ADAPTED)
def test_attaching_does_not_disturb_other_random_numbers(adapter: str) -> None:
    before = torch.get_rng_state()
    AdaptedBackbone(base(), ADAPTED[adapter], seed=7)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("adapter", ADAPTED)
def test_an_adapter_is_attached_again_from_json(adapter: str) -> None:
    other = Preprocessing((32, 32), (36, 36), mean=(0.0, 0.1, 0.2))
    trained = stepped(perturbed(AdaptedBackbone(base(), ADAPTED[adapter], preprocessing=other)))
    trained.record = {"epochs": [1, 2]}
    values = json.loads(json.dumps(trained.to_dict()))
    again = reattached(base(), values, trained.state())
    assert again.fingerprint == trained.fingerprint
    assert (again.record, again.adapter, again.preprocessing) == (trained.record, trained.adapter, other)
    assert_same(features(again), features(trained), rtol=0, atol=0)


@pytest.mark.parametrize("name", ADAPTERS)
def test_adapters_are_json(name: str) -> None:
    adapter = ADAPTERS[name]()
    values = json.loads(json.dumps(adapter.to_dict()))
    assert values["name"] == name
    assert adapter_from(values) == adapter


@pytest.mark.parametrize("adapter", ADAPTED)
def test_settings_survive_json(adapter: str) -> None:
    assert adapter_from(json.loads(json.dumps(ADAPTED[adapter].to_dict()))) == ADAPTED[adapter]


def test_an_unknown_adapter_gets_a_guess() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Unknown adapter 'adaptfromer'\. .* Did you mean 'adaptformer'"
    ):
        adapter_from({"name": "adaptfromer"})


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        (AdaptFormer(width=0), "adaptformer with width = 0 is impossible. Use a whole number ≥ 1"),
        (AdaptFormer(width=2.5), "width = 2.5"),  # type: ignore[arg-type]
        (VPT(tokens=0), "vpt with tokens = 0"),
        (VPT(tokens=-3), "vpt with tokens = -3"),
        (VPT(depth="depe"), "Unknown VPT depth 'depe'. .* Did you mean 'deep'"),  # type: ignore[arg-type]
        (VPT(start="zeros"), "Unknown VPT start 'zeros'. .* Did you mean 'zero'"),  # type: ignore[arg-type]
        (LoRA(rank=0), "lora with rank = 0"),
        (LoRA(alpha=math.nan), "lora with alpha = nan is impossible. Use a number > 0"),
        (AdaptFormer(dropout=1.5), "adaptformer with dropout = 1.5 is impossible"),
        (AdaptFormer(scale=-1.0), "adaptformer with scale = -1.0"),
        (Full(lr_multiplier=0.0), "full with lr_multiplier = 0.0"),
    ],
)
def test_silly_settings_are_refused(adapter: Adapter, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AdaptedBackbone(base(), adapter)


# ---------------------------------------------------------------- which adapter


@pytest.mark.parametrize("name", NETWORKS)
def test_the_usual_adapter_fits(name: str) -> None:
    usual = usual_adapter(base(name).network)
    assert usual == ("ssf" if name.startswith("beit") else "adaptformer")
    assert fresh(name, usual).tuned_values > 0


def test_the_usual_adapter_of_networks_of_maps_is_ssf() -> None:
    assert usual_adapter(timm.create_model("test_resnet")) == "ssf"
    assert usual_adapter(timm.create_model("test_convnext")) == "ssf"


def test_a_network_without_anything_to_scale_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"no convolution, linear layer or norm in this Sequential. Use 'full'"
    ):
        AdaptedBackbone(own(nn.AvgPool2d(2), nn.Flatten(2), layers=["0"]), SSF())


class Attentive(nn.Module):
    """A custom network with torch's attention, which uses the weights of its projection directly."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, batch: Tensor) -> Tensor:
        tokens = self.patches(batch).flatten(2).transpose(1, 2)
        return self.attention(tokens, tokens, tokens)[0]  # type: ignore[no-any-return]


def test_a_network_that_reaches_past_its_modules_is_refused() -> None:
    backbone = Backbone.from_module(Attentive(), ["patches"], Preprocessing((8, 8), (8, 8), "squash"))
    with pytest.raises(
        InputError,
        match=r"'ssf' does not fit into 'Attentive', a Attentive: .* 'weight'\. Use another adapter \('full'",
    ):
        AdaptedBackbone(backbone, SSF())
    full = AdaptedBackbone(backbone, Full())
    assert_same(features(full), features(backbone))


def test_a_layer_within_what_is_wrapped_is_refused() -> None:
    network = deepcopy(base().network)
    backbone = Backbone.from_module(network, ["blocks.0.mlp.fc1"], base().preprocessing)
    with pytest.raises(InputError, match=r"'adaptformer' does not fit into .* `fc1`\. Use .* \('full' fits"):
        AdaptedBackbone(backbone, AdaptFormer())
    assert AdaptedBackbone(backbone, Full()).layers == backbone.layers
