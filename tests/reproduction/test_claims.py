"""The paper's claims: which made-up records make them hold, fail, mixed or open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from faked_results import DIGITS, QUIET, faked, tiny_config
from layup.reproduction import analysis, rules
from layup.reproduction.characteristics import Characteristic
from layup.reproduction.claims import CLAIMS, Claims
from layup.reproduction.config import NARROW
from layup.reproduction.judgement import FAILS, HOLDS, MIXED, NOT_RUN, OPEN
from layup.reproduction.plan import ITEMS
from layup.reproduction.results import Results
from layup.reproduction.runner import Runner
from layup.reproduction.spec import USUAL, Spec


@pytest.fixture
def runner(tmp_path):
    return Runner(tiny_config(), tmp_path / "results", QUIET)


def judged(runner, number, skill, *, nested=True):
    claim = CLAIMS[number - 1]
    return claim.judged(faked(runner, claim.wanted(runner), skill, nested=nested))


def option(spec, name):
    return dict(spec.options).get(name)


def on_one(holding, failing):
    """The one skill on IN21K, and the other on IN1K."""
    return lambda c, s: (holding if s.network == "IN21K" else failing)(c, s)


def shared(averaged, last, many=0.9):
    return lambda c, s: averaged if s.method != "layup" else many if s.depth > 1 else last


def adapters(**skills):
    return lambda c, s: skills.get("adaptformer" if s.adapter == USUAL else str(s.adapter), 0.5)


def depths(**skills):
    return lambda c, s: skills[f"k{s.depth}"]


def streams(layup, ranpac, searched=0.7):
    fixed = {"layup": layup, "ranpac": ranpac}
    return lambda c, s: fixed[s.method] if s.setting == "ocl" else searched


def rivals(ours, best=0.5, **others):
    return lambda c, s: ours if s.method == "layup" else others.get(s.method.replace("-", ""), best)


def seeds(step, first=0.9):
    return lambda c, s: first + step * (s.seed - 1993)


WIN, LOSE = rivals(0.9), rivals(0.9, ranpac=0.95)


@pytest.mark.parametrize(
    ("number", "skill", "verdict"),
    [
        (1, lambda c, s: 0.9 if s.depth == 6 else 0.5, HOLDS),
        (1, lambda c, s: 0.5 if s.depth == 6 else 0.9, FAILS),
        (1, lambda c, s: 0.9 if (s.depth == 6) == (s.setting == "cil") else 0.5, MIXED),
        (1, lambda c, s: None, NOT_RUN),
        (1, lambda c, s: None if s.adapter or s.setting == "dil" else 0.9 if s.depth == 6 else 0.5, OPEN),
        (2, lambda c, s: 0.9 if s.depth == 6 else 0.4 if s.method == "laynmc" else 0.5, HOLDS),
        (2, lambda c, s: 0.9 if s.depth == 6 or s.method == "laynmc" else 0.5, FAILS),
        (2, lambda c, s: 0.9 if s.depth == 6 else 0.5, OPEN),  # without G, nothing is told apart
        (3, shared(averaged=0.502, last=0.5), HOLDS),
        (3, shared(averaged=0.7, last=0.3), MIXED),
        (3, shared(averaged=0.7, last=0.5, many=0.3), FAILS),
        (3, shared(averaged=0.51, last=0.5), OPEN),  # about a point: neither within nor outside
        (4, adapters(adaptformer=0.9, ssf=0.8, vpt=0.7), HOLDS),
        (4, adapters(adaptformer=0.9, ssf=0.8, vpt=0.95), MIXED),
        (4, adapters(adaptformer=0.3, ssf=0.4, vpt=0.4), FAILS),
        (4, adapters(adaptformer=0.9, ssf=0.9, vpt=0.9), OPEN),  # nobody is the best of equals
        (4, adapters(adaptformer=0.9, ssf=0.8, vpt=None), OPEN),
        (5, lambda c, s: 0.9 if "+layup" in s.method else 0.5, HOLDS),
        (6, lambda c, s: (0.9 if s.per_class else 0.6) if s.depth == 6 else 0.5, HOLDS),
        (6, lambda c, s: (0.7 if s.per_class else 0.9) if s.depth == 6 else 0.4, MIXED),
        (6, lambda c, s: 0.5 if s.depth == 6 else 0.9, FAILS),
        (6, lambda c, s: (0.895 if s.per_class else 0.91) if s.depth == 6 else 0.5, MIXED),  # it shrinks
        (7, depths(k1=0.5, k6=0.9, k12=0.95), HOLDS),
        (7, depths(k1=0.4, k6=0.6, k12=0.9), FAILS),
        (7, on_one(depths(k1=0.5, k6=0.9, k12=0.95), depths(k1=0.4, k6=0.6, k12=0.9)), MIXED),
        (7, depths(k1=0.5, k6=0.6, k12=0.65), OPEN),  # just about half
        (7, depths(k1=0.9, k6=0.6, k12=0.3), OPEN),  # no gain to begin with
        (8, seeds(0.001), HOLDS),
        (8, seeds(-0.1), FAILS),
        (8, on_one(seeds(0.001), seeds(-0.1)), MIXED),
        (8, seeds(0), OPEN),  # seeds that change nothing
        (8, lambda c, s: None if s.seed == 1997 else 1.0, NOT_RUN),
        (9, streams(layup=0.695, ranpac=0.3), HOLDS),
        (9, streams(layup=0.3, ranpac=0.7), FAILS),
        (9, streams(layup=0.69, ranpac=0.7), MIXED),  # little is lost, but RanPAC loses less
        (9, streams(layup=0.68, ranpac=0.3), OPEN),  # two points: neither less nor more
        (9, streams(layup=0.695, ranpac=None), OPEN),
        (11, WIN, HOLDS),
        (11, LOSE, FAILS),
        (11, lambda c, s: (WIN if s.setting == "cil" else LOSE)(c, s), MIXED),
        (11, rivals(0.9, ranpac=0.9), OPEN),
        (11, rivals(0.9, l2p=None), OPEN),  # what was not run cannot be surpassed
        (11, rivals(0.9, l2p=None, ranpac=0.95), FAILS),
        (11, lambda c, s: None, NOT_RUN),
        (12, lambda c, s: None, NOT_RUN),
    ],
)
def test_a_claim_is_judged_by_its_differences(runner, number, skill, verdict):
    found = judged(runner, number, skill)
    assert found.verdict == verdict
    assert bool(found.said) == (verdict != NOT_RUN)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 7, 8, 9, 11])
def test_equal_scores_decide_nothing(runner, number):
    assert judged(runner, number, lambda c, s: 0.7).verdict == OPEN


@pytest.mark.parametrize(
    ("number", "skill"),
    [
        (3, shared(averaged=0.5, last=0.5)),
        (4, adapters(adaptformer=0.9, ssf=0.88, vpt=0.88)),
        (6, lambda c, s: (0.7 if s.per_class else 0.71) if s.depth == 6 else 0.5),
        (9, streams(layup=0.69, ranpac=0.68)),
        (11, rivals(0.72, best=0.7)),
    ],
)
def test_wide_intervals_decide_nothing(runner, number, skill):
    """On a few hundred images, with predictions that vary by chance."""
    assert judged(runner, number, skill, nested=False).verdict == OPEN


def test_a_method_below_its_size_decides_nothing(tmp_path):
    cut = Runner(tiny_config(options=NARROW), tmp_path, QUIET)
    judgements = {
        5: lambda c, s: 0.9 if "+layup" in s.method else 0.5,
        6: lambda c, s: (0.9 if s.per_class else 0.6) if s.depth == 6 else 0.5,
        9: streams(layup=0.695, ranpac=0.3),
        11: LOSE,
    }
    for number, skill in judgements.items():
        found = judged(cut, number, skill)
        assert found.verdict == OPEN
        assert found.said[-1] == "RanPAC has 2,000 random projections here, too few to be compared with."
    assert judged(cut, 1, lambda c, s: 0.9 if s.depth == 6 else 0.5).verdict == HOLDS


def test_the_headline_takes_the_best_of_every_method_and_counts_datasets(runner):
    def skill(column, spec):
        best = spec.network == "IN1K" and (spec.adapter == "ssf" or option(spec, "lam") == 1.0)
        return (0.8 if best else 0.6) + 0.1 * (spec.method == "layup")

    found = judged(runner, 11, skill)
    assert found.verdict == HOLDS
    assert found.said == [
        "New classes: ahead of all others on 1 of 1, behind one on 0 (paper: ahead on 57 %).",
        "New domains: ahead of all others on 1 of 1, behind one on 0 (paper: ahead on 100 %).",
        "Streams: ahead of all others on 1 of 1, behind one on 0 (paper: ahead on 86 %).",
    ]
    assert len(found.gains) == 7 + 3 + 3
    ranpac = next(each for each in found.gains if "over RanPAC" in each.pair.what)
    assert (ranpac.pair.spec.adapter, ranpac.pair.over.adapter) == ("ssf", "ssf")
    assert ranpac.value == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("said", "kept", "verdict"),
    [
        ({"RanPAC": (0.79, 0.9), "SLCA": (0.81, None), "ADAM": (0.74, None)}, 1000, HOLDS),
        ({"RanPAC": (0.99, 0.99), "SLCA": (0.99, None), "ADAM": (0.99, None)}, 9000, FAILS),
        (rules.SAID, 1000, MIXED),  # the paper leaves LayUP's adapter out
        ({"RanPAC": (0.79, 0.9), "SLCA": (0.81, None), "ADAM": (0.74, None)}, 9000, MIXED),
    ],
)
def test_savings_are_those_of_the_formulas_and_of_the_runs(runner, monkeypatch, said, kept, verdict):
    monkeypatch.setattr(rules, "SAID", said)
    claim = CLAIMS[11]
    results = faked(runner, claim.wanted(runner))
    for (column, spec), record in results.gathered.items():
        last = replace(record.steps[-1], state_bytes=kept if spec.method == "layup" else 4000)
        results.gathered[column, spec] = replace(record, steps=[*record.steps[:-1], last])
    found = claim.judged(results)
    assert found.verdict == verdict
    share = "75 %" if kept == 1000 else "−125 %"
    assert found.said[0].startswith("RanPAC: 79.4 % (paper: ")
    assert all(sentence.endswith(f"state of the runs here: {share}.") for sentence in found.said)


def test_evidence_has_the_interval_of_each_difference(runner):
    claim = CLAIMS[0]
    results = faked(runner, claim.wanted(runner), lambda c, s: 0.9 if s.depth == 6 else 0.5)
    found = claim.judged(results)
    assert found.said == [
        "Of 8, gains beyond their intervals: 8, losses: 0; the mean difference is "
        f"{100 * np.mean([each.value for each in found.gains]):+.1f} points."
    ]
    one, six = (Spec("layup", "IN21K").having(k=k) for k in (1, 6))
    gap = results.gain(DIGITS, six, one)
    line = found.gains[0].row
    assert line.cells == [
        f"{100 * gap.mean:+.1f}",
        f"[{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]",
        "gain",
    ]


def test_a_contrast_needs_all_of_its_runs_on_the_same_tests(runner):
    specs = [Spec("layup", "IN1K").having(k=k) for k in (1, 6)]
    results = faked(runner, [(DIGITS, spec) for spec in specs], lambda c, s: 0.9 if s.depth == 6 else 0.5)
    gap, found = (
        results.gain(DIGITS, *specs),
        results.contrast(DIGITS, dict(zip(specs, (1, -1), strict=True))),
    )
    assert found.value == pytest.approx(gap.mean)
    assert results.contrast(DIGITS, {specs[0]: 1.0, Spec("nmc", "IN1K"): -1.0}) is None
    record = results.gathered[DIGITS, specs[0]]
    results.gathered[DIGITS, specs[0]] = replace(record, test_tasks=record.test_tasks[::-1])
    assert results.contrast(DIGITS, dict(zip(specs, (1, -1), strict=True))) is None


def test_few_datasets_decide_no_correlation(runner):
    wanted = ITEMS["figure4"].kind.wanted(runner)
    results = faked(runner, wanted, lambda c, s: 0.9 if s.depth == 5 else 0.5)
    found = CLAIMS[9].judged(results)
    assert found.verdict == OPEN
    assert found.said[0].startswith("2 datasets")


@pytest.mark.parametrize(
    ("similar", "distant", "verdict"),
    [
        ((0.9, 0.01), (0.1, 0.8), HOLDS),
        ((0.9, 0.01), (0.9, 0.01), MIXED),
        ((0.2, 0.6), (0.9, 0.01), FAILS),
        ((-0.9, 0.01), (0.1, 0.8), FAILS),
        ((0.3, 0.5), (0.1, 0.8), OPEN),
    ],
)
def test_a_correlation_needs_both_halves_of_the_claim(runner, monkeypatch, similar, distant, verdict):
    pairings = Results(runner, {}).pairings([replace(DIGITS, label=str(n)) for n in range(5)], ["IN1K"])
    known = [Characteristic(pairing, 6, 12, 0.5, 0.5, 0.5, 0.5) for pairing in pairings]
    found = {("vit-nano", name): analysis.Correlation(*similar) for name in ("within", "between")}
    found["vit-nano", "mmd"] = analysis.Correlation(*distant)
    monkeypatch.setattr(rules, "characteristics", lambda results: known)
    monkeypatch.setattr(rules, "correlations", lambda known: found)
    assert rules.similarity(Results(runner, {}), ()).verdict == verdict


def test_all_claims_are_told_with_their_rules(runner):
    lines = Claims().show(Results(runner, {})).tables[0].rows
    assert len(lines) == len(CLAIMS) == 12
    assert [line.cells[1] for line in lines] == [NOT_RUN] * 12
    assert all(line.cells[3] for line in lines)  # by what it is judged


def test_every_rule_uses_only_runs_that_its_claim_wants(runner):
    class Asked(dict):
        """Records that are asked for."""

        def get(self, key, default=None):
            self.setdefault("asked", set()).add(key)
            return super().get(key, default)

    for claim in CLAIMS:
        results = faked(runner, wanted := claim.wanted(runner), lambda c, s: 0.9 if s.depth == 6 else 0.5)
        asked = Asked(results.gathered)
        claim.judge(Results(runner, asked), claim.pairs)
        if claim.judge is not rules.similarity:  # uses those of Figure 4
            assert asked["asked"] <= {*wanted}, claim.text
