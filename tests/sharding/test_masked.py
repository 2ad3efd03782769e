"""Several owners, one model: masked sums add up to the model of one place, and alone say nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from layup import ImageModel, LayUP, load, storage
from layup.algebra import RidgeClassifier, words_of
from layup.errors import DamagedFileError, InputError, MismatchError
from layup.features import LastLayers, Rounded
from layup.sharding import Agreement, Masked, learn_masked
from photos import crops

SITES = ("berlin", "lima", "osaka", "oslo", "quito")
CLASSES = ("jay", "owl", "wren")
AGREED = Agreement("birds, spring", SITES, [*CLASSES, "kiwi"])  # which nobody has seen
SECRETS = {pair: bytes([number] * 32) for number, pair in enumerate(combinations(SITES, 2))}


@pytest.fixture(scope="module")
def nano():
    return LayUP("vit-nano").backbone_


@pytest.fixture(scope="module")
def photos():
    """Of each site: Quito has one, and Oslo none at all."""
    images = crops(31, side=16)
    labels = [CLASSES[number // 3 % 3] for number in range(31)]
    parts = {site: (images[start::3], labels[start::3]) for start, site in enumerate(SITES[:3])}
    return {**parts, "lima": (images[1:28:3], labels[1:28:3]), "quito": (images[28:29], labels[28:29])}


@pytest.fixture(scope="module")
def models(nano, photos):
    """Of each site, with the default classifier: only their sums are sent."""
    found = {}
    for site in SITES:
        found[site] = LayUP(nano, 2)
        if site in photos:
            found[site].learn(*photos[site])
    return found


@pytest.fixture(scope="module")
def joint(nano, photos):
    """What one place gives."""
    model = LayUP(nano, 2, "gcv")
    for images, labels in photos.values():
        model.learn(images, labels)
    return model


def secrets_of(site, sites=SITES):
    return {
        other: SECRETS[tuple(sorted((site, other)))]
        for other in sites
        if other != site  # type: ignore[index]
    }


def masked(models, site, agreed=AGREED):
    return agreed.masked(models[site], site, secrets_of(site, agreed.sites))


@pytest.fixture
def parts(models):
    return {site: masked(models, site) for site in SITES}


@pytest.fixture
def empty(nano):
    return LayUP(nano, 2, "gcv", anonymous=True)


def test_the_sum_of_all_sites_is_the_model_of_one_place(parts, empty, joint, tmp_path):
    model = learn_masked(empty, parts.values())
    assert model is empty
    assert model.state_hash == joint.state_hash
    assert model.counts_ == joint.counts_
    images = crops(50, side=16)[40:]
    np.testing.assert_array_equal(model.scores(images), joint.scores(images))
    assert model.photos is None
    model.save(tmp_path / "m.layup")
    assert load(tmp_path / "m.layup").state_hash == joint.state_hash


def test_the_order_of_sites_does_not_matter(parts, empty, joint):
    assert learn_masked(empty, reversed(parts.values())).state_hash == joint.state_hash


def test_files_hold_the_same(parts, empty, joint, tmp_path):
    for site, part in parts.items():
        part.write(tmp_path / site)
    model = learn_masked(empty, (Masked.read(tmp_path / site) for site in SITES))
    assert model.state_hash == joint.state_hash


def test_a_file_says_what_was_agreed_and_no_more(parts, tmp_path):
    parts["quito"].write(tmp_path / "quito")
    header, arrays = storage.read(tmp_path / "quito", "masked sums")
    assert {*header} == {"name", "sites", "classes", "network", "site"}
    assert header["classes"] == ["jay", "kiwi", "owl", "wren"]  # not only the one that it has
    assert {*arrays} == {"words"}


@pytest.mark.parametrize("sites", [("berlin", "osaka"), ("berlin", "lima", "osaka")])
def test_any_number_of_sites(models, photos, nano, empty, sites):
    agreed = Agreement("a few", sites, CLASSES)
    learn_masked(empty, [masked(models, site, agreed) for site in sites])
    alone = LayUP(nano, 2)
    for site in sites:
        alone.learn(*photos[site])
    assert empty.state_hash == alone.state_hash


def test_agreeing_does_not_depend_on_the_order_of_names(models, parts, empty, joint):
    turned = Agreement("birds, spring", SITES[::-1], ["kiwi", "wren", "jay", "owl"])
    assert turned == AGREED
    mixed = [masked(models, site, turned) if site == "lima" else parts[site] for site in SITES]
    assert learn_masked(empty, mixed).state_hash == joint.state_hash


def test_the_default_classifier_with_a_fixed_strength(parts, nano, photos):
    fixed, joint = (LayUP(nano, 2, anonymous=True).configure(strength=1.0) for _ in range(2))
    learn_masked(fixed, parts.values())
    for images, labels in photos.values():
        joint.learn(images, labels)
    assert fixed.state_hash == joint.state_hash
    images = crops(50, side=16)[40:]
    np.testing.assert_array_equal(fixed.scores(images), joint.scores(images))


def test_a_model_that_knows_something_learns_more(parts, nano, joint):
    image, label = crops(40, side=16)[39:], ["jay"]
    model = LayUP(nano, 2, "gcv")
    model.learn(image, label)
    learn_masked(model, parts.values())
    both = LayUP(nano, 2, "gcv").merge(joint)
    both.learn(image, label)
    assert model.state_hash == both.state_hash
    assert not model.knows_all


def test_a_photo_of_two_sites_counts_twice(models, nano, photos, empty):
    """Nobody can know that both have it."""
    agreed = Agreement("the same", ["berlin", "lima"], CLASSES)
    learn_masked(
        empty,
        [
            agreed.masked(models["berlin"], site, {other: bytes(32)})
            for site, other in (SITES[:2], SITES[1::-1])
        ],
    )
    twice = LayUP(nano, 2)
    for _ in range(2):
        twice.learn(*photos["berlin"], again=True)
    assert empty.state_hash == twice.state_hash


# What one site sends


def unevenness(words):
    """χ² of how often bytes have each of 256 values, in standard deviations from what random ones have."""
    found = np.bincount(words.view(np.uint8), minlength=256)
    expected = found.sum() / 256
    return abs(float(((found - expected) ** 2 / expected).sum()) - 255) / np.sqrt(2 * 255)


def likeness(words, others):
    """The correlation of two lists of numbers, in standard errors of that of random ones."""
    return abs(np.corrcoef(words.view(np.int64), others.view(np.int64))[0, 1]) * np.sqrt(len(words))


def plain(model):
    """What would be sent without masks."""
    return np.append(words_of(model.statistics_, AGREED.classes), np.uint64(1))


def test_what_one_site_sends_looks_random(models, parts):
    berlin, lima = (plain(models[site]) for site in ("berlin", "lima"))
    assert unevenness(berlin) > 1000  # so the checks can tell
    assert likeness(berlin, lima) > 100
    for site in ("berlin", "oslo"):  # sums, and nothing at all
        assert unevenness(parts[site].words) < 5
        assert likeness(parts[site].words, berlin) < 5


def test_what_all_but_one_send_looks_random(models, parts):
    """The masks that they share with the last one are left."""
    some = sum((parts[site].words for site in SITES[1:]), np.uint64(0))
    assert unevenness(some) < 5
    assert likeness(some, sum((plain(models[site]) for site in SITES[1:]), np.uint64(0))) < 5


def test_each_round_has_its_own_masks(models, parts):
    again = masked(models, "berlin", Agreement("birds, autumn", SITES, AGREED.classes))
    assert not (again.words == parts["berlin"].words).any()


# What is refused


def test_a_missing_site_is_named(parts, empty):
    with pytest.raises(InputError, match=r"masked sums of 'lima', 'oslo' are missing"):
        learn_masked(empty, [parts[site] for site in SITES if site not in ("lima", "oslo")])
    assert not empty.classes_


def test_a_site_twice_is_named(parts, empty):
    with pytest.raises(InputError, match="'lima' is given twice"):
        learn_masked(empty, [*parts.values(), parts["lima"]])


def test_nothing_is_refused(empty):
    with pytest.raises(InputError, match="nothing to add up"):
        learn_masked(empty, [])


def test_other_secrets_are_noticed(models, parts, empty):
    secrets = {**secrets_of("lima"), "quito": b"x" * 32}
    parts["lima"] = AGREED.masked(models["lima"], "lima", secrets)
    with pytest.raises(InputError, match=r"masks do not cancel.*Nothing was learned"):
        learn_masked(empty, parts.values())
    assert not empty.classes_


@pytest.mark.parametrize(
    ("agreed", "says"),
    [
        (Agreement("another", SITES, AGREED.classes), "names of the round"),
        (Agreement(AGREED.name, SITES[:4], AGREED.classes), "sites"),
        (Agreement(AGREED.name, SITES, CLASSES), "classes"),
    ],
)
def test_other_agreements_are_refused(models, parts, empty, agreed, says):
    parts["lima"] = masked(models, "lima", agreed)
    with pytest.raises(MismatchError, match=f"'berlin' and 'lima' have different {says}"):
        learn_masked(empty, parts.values())


def test_other_layers_are_refused(nano, parts, empty, photos):
    other = LayUP(nano, 3)
    other.learn(*photos["lima"])
    parts["lima"] = AGREED.masked(other, "lima", secrets_of("lima"))
    with pytest.raises(MismatchError, match="'berlin' and 'lima' have different networks, engines, layers"):
        learn_masked(empty, parts.values())
    with pytest.raises(MismatchError, match="'berlin' are of another network, engine, layers or steps"):
        learn_masked(LayUP(nano, 3, "gcv"), parts.values())


def test_another_engine_is_refused(nano, models, parts):
    other = LayUP(nano.with_engine("folded"), 2, "gcv")
    with pytest.raises(MismatchError, match="'berlin' are of another network, engine"):
        learn_masked(other, parts.values())


def test_other_steps_are_refused(nano, empty, parts):
    finer = ImageModel(Rounded(LastLayers(2), steps=(-9, -9)), RidgeClassifier(1.0), backbone=nano)
    with pytest.raises(MismatchError, match="or steps"):
        learn_masked(finer, parts.values())


def test_other_numbers_of_words_are_refused(parts, empty):
    short = {site: replace(part, words=part.words[1:]) for site, part in parts.items()}
    with pytest.raises(MismatchError, match="'berlin' are of another network"):
        learn_masked(empty, short.values())
    with pytest.raises(MismatchError, match="different numbers of words"):
        learn_masked(empty, [parts["berlin"], short["lima"]])


def test_sums_that_no_photos_have_are_refused(parts, empty):
    words = parts["lima"].words.copy()
    words[0] -= np.uint64(10**12)
    parts["lima"] = replace(parts["lima"], words=words)
    with pytest.raises(InputError, match=r"No images can have these sums.*Nothing was changed"):
        learn_masked(empty, parts.values())
    assert not empty.classes_


def test_sums_that_are_full_are_refused(parts, empty):
    words = parts["lima"].words.copy()
    words[0] += np.uint64(2**53)
    parts["lima"] = replace(parts["lima"], words=words)
    with pytest.raises(InputError, match="These sums are full"):
        learn_masked(empty, parts.values())


def test_sites_that_have_learned_nothing_give_no_model(models, empty):
    agreed = Agreement("nothing", ["oslo", "quito"], CLASSES)
    both = [
        agreed.masked(models["oslo"], site, {other: bytes(32)}) for site, other in (SITES[3:], SITES[:2:-1])
    ]
    with pytest.raises(InputError, match="No site has learned a photo"):
        learn_masked(empty, both)


@pytest.mark.parametrize("options", [{}, {"lam": "search"}])
def test_a_classifier_that_needs_samples_is_refused(nano, parts, options):
    with pytest.raises(InputError, match=r"chooses its λ by samples.*configure\(strength=1.0\)"):
        learn_masked(LayUP(nano, 2, **options), parts.values())


def test_a_model_with_roots_is_refused(nano, parts):
    with pytest.raises(InputError, match="no root per class"):
        learn_masked(LayUP(nano, 2, "gcv", per_class=True), parts.values())


def test_a_class_that_was_not_agreed_on_is_refused(models):
    with pytest.raises(InputError, match="'jay' is not among the 2 classes"):
        masked(models, "berlin", Agreement("x", SITES, ["owl", "wren"]))


@pytest.mark.parametrize(
    ("options", "says"), [({"exact": False}, "Only exact sums"), ({"adapter": "ssf"}, "tuned on one machine")]
)
def test_models_that_cannot_be_masked_are_refused(nano, options, says):
    with pytest.raises(InputError, match=says):
        AGREED.masked(LayUP(nano, 2, **options), "lima", secrets_of("lima"))


@pytest.mark.parametrize(
    ("site", "secrets", "says"),
    [
        ("rome", secrets_of("lima"), "Unknown site 'rome'"),
        (
            "lima",
            {"berlin": bytes(32)},
            "needs one secret with each other site, 'berlin', 'osaka'.*has 'berlin'",
        ),
        ("lima", {**secrets_of("lima"), "lima": b"x" * 32}, "needs one secret with each other site"),
        ("lima", {**secrets_of("lima"), "oslo": SECRETS["berlin", "lima"]}, "shares one secret with two"),
        ("lima", {**secrets_of("lima"), "oslo": b"short"}, "must be 32 bytes, not 5"),
    ],
)
def test_secrets_that_do_not_hide_are_refused(models, site, secrets, says):
    with pytest.raises(InputError, match=says):
        AGREED.masked(models["lima"], site, secrets)


@pytest.mark.parametrize(
    ("name", "sites", "classes", "says"),
    [
        ("x", ["lima"], CLASSES, "2 to 1,024 sites can add up their sums, not 1"),
        ("x", map(str, range(1025)), CLASSES, "not 1,025"),
        ("x", ["lima", "lima"], CLASSES, "given twice: 'lima'"),
        ("x", SITES, [*CLASSES, "owl"], "given twice: 'owl'"),
        ("x", SITES, [], "at least one class"),
        ("x", ["lima", 7], CLASSES, "non-empty text .* and 7 is not"),
        ("", SITES, CLASSES, "non-empty text .* and '' is not"),
    ],
)
def test_agreements_that_cannot_be_are_refused(name, sites, classes, says):
    with pytest.raises(InputError, match=says):
        Agreement(name, sites, classes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h, a: a.update(words=a["words"].astype(np.float64)), "its words are float64"),
        (lambda h, a: a.update(words=a["words"].reshape(1, -1)), "its words are uint64 of shape"),
        (lambda h, a: a.pop("words"), "words"),
        (lambda h, a: h.update(site="rome"), "does not take part"),
        (lambda h, a: h.update(sites=["lima"]), "2 to 1,024 sites"),
        (lambda h, a: h.update(more=1), "unknown"),
    ],
)
def test_a_forged_file_is_refused(parts, tmp_path, change, says):
    parts["lima"].write(tmp_path / "lima")
    header, arrays = storage.read(tmp_path / "lima", "masked sums")
    change(header, arrays)
    storage.write(tmp_path / "lima", "masked sums", header, arrays)
    with pytest.raises(DamagedFileError, match=says):
        Masked.read(tmp_path / "lima")
