"""Prompts in a frozen transformer, against a slow one; and the methods that learn them, image by image."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import layup.compat  # noqa: F401  # isort: skip  (before timm)
import numpy as np
import pytest
import timm
import torch
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva
from timm.models.vision_transformer import ParallelScalingBlock, VisionTransformer
from torch import nn
from torch.nn import functional

from layup import load_backbone
from layup.backbones import Passes, Preprocessing
from layup.backbones.timm_models import timm_backbone
from layup.benchmark.methods.coda_prompt import CODAPromptMethod, _at_right_angles
from layup.benchmark.methods.dualprompt import DualPromptMethod
from layup.benchmark.methods.gradient import _Task
from layup.benchmark.methods.l2p import L2PMethod
from layup.benchmark.methods.prompting import PromptedTransformer, cosine
from layup.errors import InputError, MismatchError
from layup.tuning.trainer import Trainer
from learners import BACK, FIRST, QUICK, SECOND, TEST, equal, kept, learned, pixels_of, setup_of, tiny

WIDTH = 24
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
SIZE = Preprocessing((16, 16), (16, 16), "squash")


@pytest.fixture(scope="module")
def pixels(backbone):
    return pixels_of(backbone, TEST[:5])


# A transformer, slowly: one image, one head after the other


def attention(module, tokens, prefix):
    width = tokens.shape[1] // module.num_heads
    query, key, value = (
        tokens @ part.T + bias
        for part, bias in zip(module.qkv.weight.chunk(3), module.qkv.bias.chunk(3), strict=True)
    )
    seen = []
    for head in range(module.num_heads):
        own = slice(head * width, (head + 1) * width)
        keys, values = key[:, own], value[:, own]
        if prefix is not None:
            keys = torch.cat([prefix[0][:, own], keys])
            values = torch.cat([prefix[1][:, own], values])
        seen.append(torch.softmax(query[:, own] @ keys.T / math.sqrt(width), dim=1) @ values)
    return module.proj(torch.cat(seen, dim=1))


def slow(network, image, prefixes=None, inserted=None):
    """All tokens after the final norm."""
    patches = network.patch_embed(image[None])[0]
    tokens = torch.cat([network.cls_token[0], patches]) + network.pos_embed[0]
    if inserted is not None:
        tokens = torch.cat([tokens[:1], inserted, tokens[1:]])
    for number, block in enumerate(network.blocks):
        prefix = (prefixes or {}).get(number)
        tokens = tokens + attention(block.attn, block.norm1(tokens), prefix)
        tokens = tokens + block.mlp(block.norm2(tokens))
    return network.norm(tokens)


PLAIN = {
    "vit": VisionTransformer,
    "layer scale": partial(VisionTransformer, init_values=0.5),
    "registers": partial(VisionTransformer, reg_tokens=3),
    "norms in attention": partial(VisionTransformer, qk_norm=True, scale_attn_norm=True),
    "norm before": partial(VisionTransformer, pre_norm=True),
    "no position for the class": partial(VisionTransformer, no_embed_class=True),
    "no positions": partial(VisionTransformer, pos_embed="none"),
    "any size": partial(VisionTransformer, dynamic_img_size=True),
    "deit, distilled": VisionTransformerDistilled,
}
SMALL = {"img_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 5, "num_heads": 2, "num_classes": 0}


def made(network):
    torch.manual_seed(0)
    built = network(**SMALL)
    with torch.no_grad():
        for value in built.parameters():
            value.add_(0.2 * torch.randn_like(value))
    return timm_backbone(built, SIZE, name="some", spec={})


@pytest.mark.parametrize("kind", PLAIN)
def test_without_prompts_it_is_the_backbone(kind, pixels):
    backbone = made(PLAIN[kind])
    network = PromptedTransformer(backbone, "l2p")
    expected = backbone(pixels).embedding
    torch.testing.assert_close(network.embed(pixels, {}), expected, **CLOSE)
    torch.testing.assert_close(network.query(pixels), expected, **CLOSE)
    assert (network.depth, network.width) == (5, 24)
    tokens = torch.randn(5, 3, 24, requires_grad=True)
    seen = network.read_tokens(pixels, tokens)
    assert seen.shape == (5, 3, 24)
    (gradient,) = torch.autograd.grad(seen.sum(dim=(1, 2))[2], tokens)
    assert gradient.flatten(1).any(dim=1).tolist() == [False, False, True, False, False]


def test_prefixes_are_additional_keys_and_values(backbone, pixels):
    torch.manual_seed(0)
    prefixes = {block: torch.randn(5, 2, length, WIDTH) for block, length in ((0, 3), (3, 1), (4, 6))}
    found = PromptedTransformer(backbone, "l2p").embed(pixels, prefixes)
    expected = [
        slow(backbone.network, image, {block: every[i] for block, every in prefixes.items()})[0]
        for i, image in enumerate(pixels)
    ]
    torch.testing.assert_close(found, torch.stack(expected), **CLOSE)
    assert not torch.allclose(found, backbone(pixels).embedding, atol=0.1)


def test_tokens_stand_behind_the_class_token_through_all_blocks(backbone, pixels):
    torch.manual_seed(0)
    tokens = torch.randn(5, 4, WIDTH)
    found = PromptedTransformer(backbone, "l2p").read_tokens(pixels, tokens)
    expected = [
        slow(backbone.network, image, inserted=own)[1:5] for image, own in zip(pixels, tokens, strict=True)
    ]
    torch.testing.assert_close(found, torch.stack(expected), **CLOSE)


def test_prompts_of_one_image_do_not_reach_another(backbone, pixels):
    torch.manual_seed(0)
    network = PromptedTransformer(backbone, "l2p")
    prefix, tokens = torch.randn(5, 2, 3, WIDTH), torch.randn(5, 4, WIDTH)
    for read, prompts in (
        (lambda some, own: network.embed(some, {1: own, 2: own}), prefix),
        (network.read_tokens, tokens),
    ):
        together = read(pixels, prompts)
        order = torch.tensor([3, 0, 4, 1, 2])
        torch.testing.assert_close(read(pixels[order], prompts[order]), together[order], **CLOSE)
        alone = torch.cat([read(pixels[i : i + 1], prompts[i : i + 1]) for i in range(5)])
        torch.testing.assert_close(alone, together, **CLOSE)
        others = prompts.clone()
        others[1:] = 0
        torch.testing.assert_close(read(pixels, others)[0], together[0], **CLOSE)


def test_gradients_reach_prompts_and_nothing_else(backbone, pixels):
    network = PromptedTransformer(backbone, "l2p")
    prefix = torch.randn(5, 2, 3, WIDTH, requires_grad=True)
    tokens = torch.randn(5, 4, WIDTH, requires_grad=True)
    (network.embed(pixels, {2: prefix}).sum() + network.read_tokens(pixels, tokens).sum()).backward()
    assert prefix.grad.abs().sum() > 0
    assert tokens.grad.abs().sum() > 0
    assert all(value.grad is None for value in backbone.network.parameters())
    assert not network.query(pixels).requires_grad


def test_no_prompt_stays_behind_also_if_something_goes_wrong(backbone, pixels):
    network = PromptedTransformer(backbone, "l2p")
    expected = network.embed(pixels, {})
    network.embed(pixels, {0: torch.randn(5, 2, 3, WIDTH)})
    network.read_tokens(pixels, torch.randn(5, 2, WIDTH))
    for broken in (
        lambda: network.embed(pixels, {0: torch.randn(5, 2, 3, WIDTH), 1: torch.randn(5, 2, 3, 7)}),
        lambda: network.read_tokens(pixels, torch.randn(5, 2, 7)),
    ):
        with pytest.raises(RuntimeError):
            broken()
    assert torch.equal(network.embed(pixels, {}), expected)
    assert torch.equal(network.query(pixels), backbone.embed(pixels))


def test_the_backbone_itself_gets_no_wrappers_and_no_second_weights(pixels):
    backbone = tiny()
    structure, fingerprint = repr(backbone.network), backbone.fingerprint
    network = PromptedTransformer(backbone, "l2p")
    network.embed(pixels, {0: torch.randn(5, 2, 3, WIDTH)})
    backbone.refresh()
    assert (repr(backbone.network), backbone.fingerprint) == (structure, fingerprint)
    own = {id(value) for value in backbone.network.parameters()}
    assert {id(value) for value in network._network.parameters()} == own


def test_passes_count_as_what_they_are(backbone, pixels):
    backbone = backbone.counted()
    network = PromptedTransformer(backbone, "l2p")
    for read in (
        network.query,
        partial(network.embed, prefixes={}),
        partial(network.read_tokens, tokens=torch.zeros(5, 1, WIDTH)),
    ):
        for training in (True, False):
            backbone.passes = Passes()
            read(pixels, training=training)
            assert backbone.passes == (Passes(training=5) if training else Passes(reading=5))


def test_prompt_tokens_share_the_position_of_the_class_token(backbone):
    network = PromptedTransformer(backbone, "l2p")
    assert torch.equal(network.token_position, backbone.network.pos_embed[0, 0])
    assert not network.token_position.requires_grad
    for kind in ("no position for the class", "no positions"):
        assert torch.equal(PromptedTransformer(made(PLAIN[kind]), "l2p").token_position, torch.zeros(24))


UNFIT = {
    "mean": partial(VisionTransformer, global_pool="avg"),
    "no class token": partial(VisionTransformer, global_pool="avg", class_token=False),
    "classifier": lambda **size: VisionTransformer(**{**size, "num_classes": 7}),
    "parallel blocks": partial(VisionTransformer, block_fn=ParallelScalingBlock),
    "differential attention": partial(VisionTransformer, attn_layer="diff"),
    "eva": partial(Eva, global_pool="token"),
    "resnet": lambda **_: timm.create_model("test_resnet", num_classes=0),
}


@pytest.mark.parametrize("name", ["l2p", "dualprompt", "coda-prompt"])
@pytest.mark.parametrize("kind", UNFIT)
def test_networks_that_prompts_do_not_fit_into_are_refused(kind, name):
    network = UNFIT[kind](**SMALL)
    backbone = timm_backbone(network, SIZE, name="some", spec={})
    what = rf"is of another kind \({type(network).__name__}\)"
    says = rf"'{name}' puts prompts into a plain vision transformer.*'some' {what}"
    with pytest.raises(InputError, match=says):
        QUICK[name].begin(setup_of(backbone))


def test_the_bundled_network_is_no_transformer():
    with pytest.raises(InputError, match=r"and 'bundled' is of another kind .*\. Use another backbone"):
        QUICK["l2p"].begin(setup_of(load_backbone("bundled")))


def test_prompts_in_five_blocks_need_five():
    four = setup_of(tiny(depth=4))
    for name in ("dualprompt", "coda-prompt"):
        with pytest.raises(InputError, match=rf"'{name}' puts prompts into the blocks up to number 5.*has 4"):
            QUICK[name].begin(four)
    assert learned(QUICK["l2p"], setup_of(tiny(depth=1)), FIRST).head.classes == ["digit 0", "digit 1"]


def test_the_cosine_of_rows():
    rng = np.random.default_rng(0)
    queries, keys = rng.normal(size=(3, 5)), rng.normal(size=(4, 5))
    expected = [[q @ k / np.linalg.norm(q) / np.linalg.norm(k) for k in keys] for q in queries]
    np.testing.assert_allclose(cosine(torch.from_numpy(queries), torch.from_numpy(keys)), expected)


# The methods, image by image


def begun(learner, labels):
    """A learner at the first step of a task."""
    learner.tasks.append(sorted(set(labels)))
    torch.manual_seed(3)
    learner.head.grow(learner.tasks[-1])
    learner.start()
    return learner


def query(learner, image):
    return slow(learner.backbone.network, image)[0].detach()


def cos(some, other):
    return some @ other / some.norm() / other.norm()


def row_score(learner, name, feature):
    (row,) = learner.head.rows([name])
    return row[:-1] @ feature + row[-1]


def entropy(learner, feature, label):
    """−log softmax over the task's own classes."""
    scores = {name: row_score(learner, name, feature) for name in learner.tasks[-1]}
    return torch.logsumexp(torch.stack([*scores.values()]), dim=0) - scores[label]


def l2p_feature(learner, image):
    q = query(learner, image)
    near = [cos(q, key) for key in learner.keys]
    chosen = sorted(range(len(near)), key=lambda index: -near[index])[: learner.method.top]
    position = learner.backbone.network.pos_embed[0, 0]
    tokens = torch.cat([learner.prompts[index] + position for index in chosen])
    seen = slow(learner.backbone.network, image, inserted=tokens)
    return seen[1 : 1 + len(tokens)].mean(dim=0), sum(near[index] for index in chosen)


def l2p_loss(learner, image, label):
    feature, near = l2p_feature(learner, image)
    return entropy(learner, feature, label) - learner.method.pull * near


def dual_feature(learner, image, expert):
    prefixes = {0: learner.general[0], 1: learner.general[1], 2: expert[0], 3: expert[1], 4: expert[2]}
    return slow(learner.backbone.network, image, prefixes)[0]


def dual_loss(learner, image, label):
    feature = dual_feature(learner, image, learner.experts[-1])
    near = cos(query(learner, image), learner.keys[-1])
    return entropy(learner, feature, label) - learner.method.pull * near


def coda_feature(learner, image):
    q = query(learner, image)
    prefixes = {}
    for block in range(5):
        total = 0.0
        for number, parts in enumerate(learner.components):
            for prompt, key, attended in zip(*(parts[part][block] for part in parts), strict=True):
                if number < len(learner.components) - 1:
                    prompt, key, attended = prompt.detach(), key.detach(), attended.detach()
                total = total + cos(q * attended, key) * prompt.reshape(-1, WIDTH)
        half = len(total) // 2
        prefixes[block] = total[:half], total[half:]
    return slow(learner.backbone.network, image, prefixes)[0]


def skewness(learner):
    total = 0.0
    for block in range(5):
        for part in learner.components[0]:
            rows = [
                row if parts is learner.components[-1] else row.detach()
                for parts in learner.components
                for row in parts[part][block]
            ]
            squares = [(a @ b - float(i == j)) ** 2 for i, a in enumerate(rows) for j, b in enumerate(rows)]
            total = total + sum(squares) / len(squares)
    return total


def coda_loss(learner, image, label):
    loss = entropy(learner, coda_feature(learner, image), label)
    strength = learner.method.orthogonality
    return loss + strength * skewness(learner) if strength else loss


CASES = [
    (QUICK["l2p"], l2p_loss),
    (replace(QUICK["l2p"], pool=5, length=3, top=1, pull=2.0), l2p_loss),
    (replace(QUICK["l2p"], pool=3, top=3, pull=0.0), l2p_loss),
    (QUICK["dualprompt"], dual_loss),
    (replace(QUICK["dualprompt"], general_length=1, expert_length=1, pull=0.1), dual_loss),
    (QUICK["coda-prompt"], coda_loss),
    (replace(QUICK["coda-prompt"], components=10, length=2, orthogonality=0.1), coda_loss),
]


@pytest.mark.parametrize(("method", "by_hand"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_the_loss_and_all_gradients_are_those_of_images_one_by_one(method, by_hand, setup):
    learner = begun(learned(method, setup, FIRST), BACK[1])  # a class of the first task, and a new one
    images = pixels_of(setup.backbone, BACK[0])
    targets = torch.tensor([learner.head.classes.index(label) for label in BACK[1]])
    values = [*learner.state().values(), *learner.head.rows(learner.head.classes)]
    loss = learner.loss(images, targets)
    found = torch.autograd.grad(loss, values, allow_unused=True)
    expected = sum(by_hand(learner, *pair) for pair in zip(images, BACK[1], strict=True)) / len(images)
    wanted = torch.autograd.grad(expected, values, allow_unused=True)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    trained = {id(value) for _, group in learner.groups() for value in group}
    for value, gradient, right in zip(values, found, wanted, strict=True):
        assert (gradient is None) == (right is None)
        if gradient is not None:
            torch.testing.assert_close(gradient, right, rtol=1e-3, atol=1e-5)
        assert (gradient is not None) == (id(value) in trained)


def predicted(learner, image):
    """The scores by hand."""
    if isinstance(learner.method, L2PMethod):
        feature = l2p_feature(learner, image)[0]
    elif isinstance(learner.method, DualPromptMethod):
        near = [cos(query(learner, image), key) for key in learner.keys]
        feature = dual_feature(learner, image, learner.experts[near.index(max(near))])
    else:
        feature = coda_feature(learner, image)
    return torch.stack([row_score(learner, name, feature) for name in learner.head.classes])


@pytest.mark.parametrize("name", ["l2p", "dualprompt", "coda-prompt"])
def test_scores_are_those_of_images_one_by_one(name, setup):
    learner = learned(QUICK[name], setup, FIRST, SECOND)
    images = pixels_of(setup.backbone, TEST)
    if name == "dualprompt":  # so that images choose differently
        learner.keys = [nn.Parameter(query(learner, images[index])) for index in (0, 2)]
        near = cosine(learner.network.query(images), torch.stack(learner.keys))
        assert set(near.argmax(dim=1).tolist()) == {0, 1}
    if name == "l2p":
        near = cosine(learner.network.query(images), learner.keys)
        assert len({tuple(sorted(chosen)) for chosen in near.topk(2, dim=1).indices.tolist()}) > 1
    expected = torch.stack([predicted(learner, image) for image in images])
    torch.testing.assert_close(learner.scores(images), expected, rtol=1e-3, atol=1e-4)


CHANGES = {
    "l2p": ["prompts", "keys"],
    "dualprompt": ["general", "expert.1", "key.1"],
    "coda-prompt": ["prompts.1", "keys.1", "attentions.1"],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_task_trains_what_is_its_own_and_nothing_of_earlier_ones(name, setup):
    learner = learned(QUICK[name], setup, FIRST)
    before = kept(learner)
    begin, at_first = learner.start, {}

    def spy():
        begin()
        at_first.update(kept(learner))

    learner.start = spy
    learner.learn(*SECOND)
    after = kept(learner)
    moved = [part for part in learner.state() if not torch.equal(after[part], at_first[part])]
    assert moved == CHANGES[name]
    assert all(torch.equal(after[part], before[part]) for part in before if part not in [*moved, "head"])
    assert torch.equal(after["head"][:2], before["head"])
    assert (after["head"][2:] != at_first["head"][2:]).any(dim=1).all()


@pytest.mark.parametrize("name", CHANGES)
def test_restored_prompts_are_their_own(name, setup, tmp_path):
    learner = learned(QUICK[name], setup, FIRST)
    learner.save(tmp_path / "l.layup")
    some, other = (QUICK[name].resume(setup, tmp_path / "l.layup") for _ in range(2))
    before = kept(other)
    some.learn(*SECOND)
    assert equal(kept(other), before)
    assert equal(kept(learner), before)


@pytest.mark.parametrize(("name", "clipped"), [("l2p", True), ("dualprompt", True), ("coda-prompt", False)])
def test_gradients_are_cut_at_norm_1_where_the_recipe_does(name, clipped, setup):
    learner = begun(QUICK[name].begin(setup), FIRST[1])
    with torch.no_grad():
        for row in learner.head.rows(learner.head.classes):
            row.mul_(1000)
    images = pixels_of(setup.backbone, FIRST[0])
    targets = torch.tensor([learner.head.classes.index(label) for label in FIRST[1]])
    values = [value for _, group in learner.groups() for value in group]
    before = [value.detach().clone() for value in values]
    gradients = torch.autograd.grad(learner.loss(images, targets), values)
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    assert norm > 5
    task = _Task(learner, FIRST[0], targets.numpy())
    Trainer(task, learner.recipe, optimizer=torch.optim.SGD(values, lr=1.0)).step(images, targets)
    factor = 1 / norm if clipped else 1.0
    for value, old, gradient in zip(values, before, gradients, strict=True):
        torch.testing.assert_close(value.detach(), old - factor * gradient, rtol=1e-3, atol=1e-4)


def test_prompts_begin_between_minus_one_and_one(setup):
    values = [*QUICK["l2p"].begin(setup).state().values()]
    values += [*begun(QUICK["dualprompt"].begin(setup), FIRST[1]).state().values()]
    for value in values:
        assert value.abs().max() <= 1
        assert value.min() < -0.5
        assert value.max() > 0.5


# L2P


def test_more_prompts_than_there_are_cannot_be_chosen(setup):
    with pytest.raises(InputError, match=r"'l2p' cannot choose 5 of 4 prompts\. Use top from 1 to pool"):
        L2PMethod(pool=4, top=5).resolved(setup)


def test_prompts_that_nobody_chose_are_left_alone(setup):
    learner = begun(replace(QUICK["l2p"], pool=5, top=1).begin(setup), FIRST[1])
    images = pixels_of(setup.backbone, FIRST[0])
    chosen = set(cosine(learner.network.query(images), learner.keys).argmax(dim=1).tolist())
    assert len(chosen) < 5
    learner.loss(images, torch.zeros(len(images), dtype=torch.int64)).backward()
    for values in (learner.prompts, learner.keys):
        assert set(values.grad.flatten(1).any(dim=1).nonzero().flatten().tolist()) == chosen


# DualPrompt


def test_a_new_expert_begins_as_the_last_one_ended_with_a_key_of_its_own(setup):
    learner = begun(learned(QUICK["dualprompt"], setup, FIRST), SECOND[1])
    first, second = learner.experts
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()
    assert second.requires_grad
    assert not torch.equal(*learner.keys)
    assert len(learner.experts) == len(learner.keys) == 2


# CODA-Prompt


@pytest.mark.parametrize("epochs", [1, 2, 5, 20])
def test_the_rate_goes_down_along_a_quarter_of_a_wave(epochs):
    method = CODAPromptMethod(epochs=epochs, learning_rate=0.1)
    for epoch in range(epochs):
        expected = 0.1 * math.cos(99 * math.pi * epoch / (200 * (epochs - 1))) if epoch else 0.1
        assert method.rate(epoch) == pytest.approx(expected)


def test_new_components_are_at_right_angles_to_all_before(setup):
    learner = begun(learned(QUICK["coda-prompt"], setup, FIRST, SECOND), BACK[1])
    *earlier, new = learner.components
    for part in ("prompts", "keys", "attentions"):
        for block in range(5):
            own = new[part][block].detach()
            before = functional.normalize(torch.cat([each[part][block].detach() for each in earlier]), dim=1)
            assert len(own) == 2
            torch.testing.assert_close(own @ own.T, torch.eye(2), rtol=0, atol=1e-5)
            torch.testing.assert_close(own @ before.T, torch.zeros(2, 4), rtol=0, atol=1e-5)
            assert not torch.allclose(before @ before.T, torch.eye(4), atol=1e-4)  # those have been trained
    assert new["prompts"].shape == (5, 2, 4 * WIDTH)
    assert new["keys"].shape == (5, 2, WIDTH)


def test_where_no_direction_is_left_components_are_random_unit_vectors():
    torch.manual_seed(0)
    found = _at_right_angles(torch.randn(3, 5), 4)
    together = found @ found.T
    torch.testing.assert_close(together.diagonal(), torch.ones(4))
    torch.testing.assert_close(together[:2, :2], torch.eye(2), rtol=0, atol=1e-5)
    assert together[2:, 2:].fill_diagonal_(0).abs().max() > 0.01
    assert _at_right_angles(torch.randn(9, 5), 2).shape == (2, 5)
    assert _at_right_angles(torch.zeros(2, 5), 2).isfinite().all()


@pytest.mark.parametrize(("components", "tasks", "own"), [(100, 10, 10), (10, 3, 3), (2, 5, 1)])
def test_components_are_shared_out_among_the_tasks(components, tasks, own, setup):
    learner = CODAPromptMethod(components=components).begin(replace(setup, tasks=tasks))
    assert begun(learner, FIRST[1]).components[0]["keys"].shape == (5, own, WIDTH)


def test_coda_must_know_the_number_of_tasks(setup):
    with pytest.raises(InputError, match="must know the number of tasks before the first one"):
        QUICK["coda-prompt"].resolved(replace(setup, tasks=None))


def test_one_task_more_than_announced_is_refused_before_anything_changes(setup):
    learner = learned(QUICK["coda-prompt"], replace(setup, tasks=1), FIRST)
    before, predictions = kept(learner), learner.predict(TEST)
    with pytest.raises(InputError, match=r"was told of 1 tasks.*this is one more"):
        learner.learn(*SECOND)
    assert equal(kept(learner), before)
    assert (learner.tasks, learner.predict(TEST)) == ([["digit 0", "digit 1"]], predictions)


def test_coda_cannot_go_on_with_another_number_of_tasks(setup, tmp_path):
    learned(QUICK["coda-prompt"], setup, FIRST).save(tmp_path / "l.layup")
    with pytest.raises(MismatchError, match="holds a learner with tasks 3, and not 4"):
        QUICK["coda-prompt"].resume(replace(setup, tasks=4), tmp_path / "l.layup")


def test_half_of_a_prefix_are_keys(setup):
    with pytest.raises(InputError, match=r"length 5.*Use an even length"):
        CODAPromptMethod(length=5).resolved(setup)
