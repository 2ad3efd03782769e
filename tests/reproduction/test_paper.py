"""The paper's values are those that it prints, and every number in a footnote follows from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean

import pytest

from layup.reproduction import costs
from layup.reproduction.paper import FOOTNOTES, PRINTED, SAYS, gap_closed, parse

PAPER = Path(__file__).parents[3] / "shared" / "paper.tex"
TABLES = tuple(f"table{number}" for number in range(1, 8))
ITEMS = (*TABLES, *(f"figure{number}" for number in range(2, 9)), "complexity")

CIL = PRINTED["table1"].columns
DIL = PRINTED["table2"].columns


@pytest.fixture(scope="module")
def tex() -> str:
    if not PAPER.exists():
        pytest.skip(f"the paper's source is not at {PAPER}")
    return PAPER.read_text()


# --- The tables, read from the paper's source.

TABULAR = re.compile(r"\\begin\{tabular\}.*?\n(.*?)\\end\{tabular\}", re.DOTALL)
LABELS = {
    "cil-comparison": "table1",
    "dil-comparison": "table2",
    "ocl-comparison": "table3",
    "performance-per-k": "table4",
    "layup+adam": "table5",
    "layup+ranpac": "table5",
    "datasets-overview": "table6",
    "appendix-performance-per-T": "table7",
}
DROPPED = re.compile(
    r"~?\\cite[pt]?\{[^}]*\}|\\(?:cell|row)color\{[^}]*\}|\\textcolor\{white\}|\\(?:top|mid|bottom)rule"
)
UNWRAPPED = re.compile(r"\\(?:textbf|text|mc|bc|numprint|multirow\{\d+\}\{\*\})\{([^{}]*)\}")


def plain(cell: str) -> str:
    """The text of a cell, written as our labels are."""
    cell = DROPPED.sub("", cell).replace("$^*$", "*").replace("\\lambda", "λ").replace("w/~", "+ ")
    cell = UNWRAPPED.sub(r"\1", UNWRAPPED.sub(r"\1", cell))
    cell = cell.replace("$_", ", ").replace("N_", "")
    cell = re.sub(r"[${}]", "", cell).replace("=", " = ")
    return re.sub(r" \((k = \d+)\)", r", \1", cell).strip()


def cells_of(table: str, lines: Iterable[Sequence[str]]) -> dict[tuple[str, str], str]:
    """(row, column) → what the paper prints, in its order."""
    header, *body = lines
    names = 2 if table in ("table6", "table7") else 1  # columns that make the label of a row
    kept = [n for n, name in enumerate(header) if n >= names and name not in ("Original", "CL Formulation")]
    found: dict[tuple[str, str], str] = {}
    first = ""
    for cells in body:
        first = cells[0] or first  # one cell for several rows
        if table == "table4":
            label = f"k = {first}"
        elif table == "table7":
            label = f"k = {first}, T = {cells[1]}"
        else:
            label = cells[names - 1]
        for n in kept:
            pairing = (label, {"val": "test"}.get(header[n], header[n]))
            assert pairing not in found
            found[pairing] = cells[n]
    return found


@pytest.fixture(scope="module")
def source(tex: str) -> dict[str, dict[tuple[str, str], str]]:
    found: dict[str, dict[tuple[str, str], str]] = {}
    labels = []
    for match in TABULAR.finditer(tex):
        label = re.search(r"\\label\{table:([^}]*)\}", tex[match.end() :])
        assert label is not None
        labels.append(label[1])
        lines = [[plain(cell) for cell in line.split("&")] for line in match[1].split(r"\\") if "&" in line]
        table = LABELS[label[1]]
        found.setdefault(table, {}).update(cells_of(table, lines))
    assert labels == list(LABELS)
    return found


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_is_the_papers(table: str, source: dict[str, dict[tuple[str, str], str]]):
    ours, theirs = PRINTED[table], source[table]
    assert [(label, column) for label, cells in ours.rows.items() for column in cells] == list(theirs)
    for (label, column), text in theirs.items():
        expected = None if text == "--" else float(text.removesuffix("*"))
        assert ours.rows[label][column] == expected, (label, column)
    assert ours.starred == {pairing for pairing, text in theirs.items() if text.endswith("*")}


def test_the_source_has_as_many_values_as_expected(source: dict[str, dict[tuple[str, str], str]]):
    assert [len(source[table]) for table in TABLES] == [105, 33, 56, 84, 56, 40, 54]
    assert sum(text.endswith("*") for cells in source.values() for text in cells.values()) == 3
    assert sum(text == "--" for cells in source.values() for text in cells.values()) == 2


# --- Sentences.


def test_every_item_has_its_sentences():
    assert tuple(PRINTED) == TABLES
    assert tuple(SAYS) == tuple(FOOTNOTES) == ITEMS
    assert all(SAYS.values())


# No values: where something stands in the paper, names of networks, and a method's own options.
REFERENCES = re.compile(
    r"Tables \d and \d|(?:Table|Section|Appendix|Algorithm) [A-Z\d](?:\.\d)?"
    r"|ViT-B/16|IN\d+K|Resisc45|[kλTC] = \d+"
)
DATASETS = sorted((*CIL, *DIL), key=len, reverse=True)
TOKENS = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, DATASETS))})(?!\w)|\d[\d,]*\.?\d*(?<![.,])")


def tokens(sentence: str) -> list[str]:
    """The datasets and numbers of a sentence, in its order."""
    return [token.replace(",", "") for token in TOKENS.findall(REFERENCES.sub("", sentence))]


def prose(tex: str) -> set[str]:
    """All numbers outside of the tables."""
    return set(re.findall(r"\d+(?:\.\d+)?", TABULAR.sub("", tex)))


@pytest.mark.parametrize("item", ITEMS)
def test_the_paper_says_these_numbers(item: str, tex: str):
    said = {token for sentence in SAYS[item] for token in tokens(sentence) if token not in DATASETS}
    assert said <= prose(tex)


def test_sentences_are_our_own(tex: str):
    """No six words in a row are the paper's; names and numbers are not words."""

    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"[^\W\d_][\w+/-]*", TOKENS.sub(" ", text).lower())
        return set(zip(*(words[start:] for start in range(6)), strict=False))

    theirs = runs(tex)
    for texts in (SAYS, FOOTNOTES):
        for item, sentences in texts.items():
            assert not theirs & {run for sentence in sentences for run in runs(sentence)}, item


# --- Footnotes, recomputed.


class Said(str):
    """A number that the paper's text has, where its tables have another."""


def row(table: int, label: str) -> dict[str, float]:
    values = PRINTED[f"table{table}"].rows[label]
    return {column: value for column, value in values.items() if value is not None}


def less(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, float]:
    """Ours less theirs, to the digits that are printed."""
    return {column: round(ours[column] - theirs[column], 1) for column in ours if column in theirs}


def higher(ours: dict[str, float], theirs: dict[str, float]) -> list[str]:
    """The datasets where ours is higher."""
    return [name for name in ours if ours[name] > theirs[name]]


def listed(names: Iterable[str], *rows: dict[str, float]) -> list[str | float]:
    """Each dataset, and its value in these rows."""
    return [entry for name in names for entry in (name, *(values[name] for values in rows))]


def extremes(values: dict[str, float]) -> tuple[str, str]:
    return min(values, key=values.__getitem__), max(values, key=values.__getitem__)


def without(values: dict[str, float], *names: str) -> list[float]:
    return [value for name, value in values.items() if name not in names]


def table1() -> list[list[str | float]]:
    layup, frozen, k1, bound = (row(1, label) for label in ("LayUP", "w/o FSA", "k = 1", "Joint FT (full)"))
    coda, ranpac = row(1, "CODA-P"), row(1, "RanPAC")
    others = [row(1, label) for label in ("L2P", "DualPrompt", "NMC+FSA", "ADAM", "SLCA")]
    assert not any(higher(other, layup) for other in others)
    assert higher(coda, layup) == ["IN-A"]
    assert higher(ranpac, layup) == ["CIFAR", "CUB", "OB"]
    beyond = {label: higher(row(1, label), bound) for label in PRINTED["table1"].rows}
    assert {label: names for label, names in beyond.items() if names} == {
        "CODA-P": ["IN-A"],
        **{label: ["VTAB"] for label in ("RanPAC", "LayUP", "w/o FSA")},
    }
    frozen_k1 = row(1, "k = 1, w/o FSA")
    assert higher(frozen, frozen_k1) == list(CIL)
    gains = less(layup, k1)
    low, high = extremes(gains)
    one = row(4, "k = 1")
    same = [name for name in CIL if layup[name] == row(4, "k = 6")[name]]
    return [
        listed(["IN-A"], coda, layup),
        [*listed(["IN-A"], bound, coda), *listed(["VTAB"], bound, ranpac, layup, frozen)],
        [Said("1.2"), Said("5.7"), gains[low], low, gains[high], high],
        listed(["VTAB"], less(frozen, frozen_k1), frozen_k1, frozen),
        nearest_means(1),
        [*listed(higher(one, k1), k1, one), *listed(same, layup)],
    ]


def nearest_means(table: int) -> list[str | float]:
    many, one = row(table, "LayNMC"), row(table, "NMC")
    return listed(higher(many, one), many, one)


def table2() -> list[list[str | float]]:
    return [nearest_means(2)]


def table3() -> list[list[str | float]]:
    lost = less(row(3, "LayUP, λ = 1"), row(3, "LayUP, λ = 0"))
    assert {name for name in CIL if lost[name] > 1} == {"VTAB", "IN-A", "Cars"}
    gains = {lam: less(row(3, f"LayUP, λ = {lam}"), row(3, f"k = 1, λ = {lam}")) for lam in (0, 1)}
    assert [{name for name in CIL if gains[lam][name] < 0} for lam in (0, 1)] == [
        {"IN-A", "VTAB", "Cars"},
        {"IN-A"},
    ]
    won = [gain for lam in (0, 1) for gain in gains[lam].values() if gain > 0]
    assert (min(won), max(won)) == (0.6, 8.3)
    fixed, fixed_k1 = row(3, "LayUP, λ = 1"), row(3, "k = 1, λ = 1")
    searched, searched_k1 = row(1, "w/o FSA"), row(1, "k = 1, w/o FSA")
    return [
        ["VTAB", lost["IN-A"], "IN-A", lost["Cars"], "Cars"],
        ["IN-A", "VTAB", Said("0.6"), Said("8.3"), "Cars", -gains[0]["Cars"]],
        [
            *listed(higher(fixed, searched), fixed, searched),
            *listed(higher(fixed_k1, searched_k1), fixed_k1, searched_k1),
        ],
        listed(["OB"], less(searched, searched_k1), gains[1], fixed_k1, row(1, "k = 1")),
    ]


def table4() -> list[list[str | float]]:
    six = less(row(4, "k = 6"), row(4, "k = 1"))
    twelve = less(row(4, "k = 12"), row(4, "k = 6"))
    step = less(row(4, "k = 6"), row(4, "k = 4"))
    return [
        [
            *(Said("2.7"), mean(six.values()), "VTAB", mean(without(six, "VTAB"))),
            *(mean(twelve.values()), "VTAB", mean(without(twelve, "VTAB"))),
        ],
        [mean(step.values()), mean(twelve.values())],
        [],
    ]


def table5() -> list[list[str | float]]:
    here, there = row(5, "ADAM"), row(1, "ADAM")
    assert higher(here, there) == ["Cars"]
    ranpac = {k: row(5, f"RanPAC + LayUP, k = {k}") for k in (4, 6, 12)}
    gains = {k: less(values, row(5, "RanPAC")) for k, values in ranpac.items()}
    best = {name: max(values[name] for values in ranpac.values()) for name in CIL}
    assert min(less(best, row(5, "RanPAC")).values()) == 0.4
    assert {(k, name) for k in gains for name in CIL if gains[k][name] < 0.4} == {(4, "CUB"), (6, "CUB")}
    plugged = row(5, "ADAM + LayUP, k = 4")["Cars"]
    assert round(plugged - here["Cars"], 1) == 31.1
    assert all(gain > 0 for k in gains for gain in gains[k].values())  # "improved on every dataset" holds
    return [
        ["Cars", there["Cars"], here["Cars"], Said("31.1"), plugged - there["Cars"]],
        ["Cars", less(here, there)["Cars"], less(row(1, "RanPAC"), row(5, "RanPAC"))["Cars"]],
        [Said("0.4"), "CUB", gains[4]["CUB"], gains[6]["CUB"]],
        listed(higher(row(1, "RanPAC"), best), row(1, "RanPAC"), best),
    ]


def table6() -> list[list[str | float]]:
    images = {name: row(6, name)["train"] for name in CIL}
    assert min(without(images, "IN-A", "VTAB", "Cars")) == images["CUB"]
    return [["IN-A", "VTAB", "Cars", "CIFAR", "OB", "CUB", "Cars", images["Cars"], "CUB", images["CUB"]]]


def figure4() -> list[list[str | float]]:
    column = {name: {k: row(4, f"k = {k}")[name] for k in range(1, 13)} for name in CIL}
    best: dict[str, list[str | float]] = {
        name: [k for k, value in values.items() if value == max(values.values())]
        for name, values in column.items()
    }
    names = ("Cars", "VTAB", "OB", "CIFAR")
    return [[*names, *(x for name in names for x in (*best[name], name))]]


def figure7() -> list[list[str | float]]:
    return [[*(row(4, f"k = {k}")["VTAB"] for k in (1, 6, 12)), "VTAB"]]


def complexity() -> list[list[str | float]]:
    paper, million = costs.Setup(), 1e6
    narrow = costs.adapter_values(costs.Setup(bottleneck=16)) / million
    adapter = costs.adapter_values(paper) / million
    ranpac = costs.ranpac(paper, prototypes=True)
    beside_gram = costs.ranpac(paper).without("Gram matrix").values
    others = (ranpac, costs.slca(paper), costs.adam(paper))
    return [
        [Said("16"), narrow, Said("1"), paper.bottleneck, adapter],
        [
            *(ranpac.parts["projection"] / million, adapter, beside_gram / million, Said("11")),
            ranpac.without("Gram matrix").values / million,
        ],
        [costs.adam(paper).values / million, Said("84")],
        [
            *(Said("81"), Said("82"), Said("75")),
            *(100 * costs.saving(costs.layup(paper).values, other.values) for other in others),
        ],
        [adapter],
        [
            ranpac.parts["prototypes"] / million,
            paper.classes * paper.k * paper.width / million,
            paper.classes * paper.width / million,
        ],
        [],
    ]


@cache
def expected() -> dict[str, list[list[str | float]]]:
    """What each footnote holds, in its order."""
    return {
        "table1": table1(),
        "table2": table2(),
        "table3": table3(),
        "table4": table4(),
        "table5": table5(),
        "table6": table6(),
        "figure4": figure4(),
        "figure5": [[Said("39"), Said("22")]],
        "figure6": [[]],
        "figure7": figure7(),
        "figure8": [[], [Said("21000")]],
        "complexity": complexity(),
    }


CASES = [(item, number) for item in ITEMS for number in range(len(FOOTNOTES[item]))]


@pytest.mark.parametrize(("item", "number"), CASES)
def test_footnotes_are_right(item: str, number: int):
    """All of its numbers and datasets are expected, in its order, and the numbers to its digits."""
    found = tokens(FOOTNOTES[item][number])
    written = [
        value if isinstance(value, str) else f"{value:.{len(token.partition('.')[2])}f}"
        for value, token in zip(expected()[item][number], found, strict=True)
    ]
    assert found == written


def test_every_footnote_is_checked():
    assert {item: len(checks) for item, checks in expected().items()} == {
        item: len(notes) for item, notes in FOOTNOTES.items() if notes
    }


def test_footnotes_quote_the_text(tex: str):
    quoted = {value for checks in expected().values() for check in checks for value in check}
    assert {value for value in quoted if isinstance(value, Said)} <= prose(tex)


# --- What needs no footnote.


def test_these_claims_hold():
    assert all(
        row(2, "LayUP")[name] > row(2, other)[name]
        for other in ("NMC+FSA", "ADAM", "RanPAC")
        for name in row(2, other)
    )
    assert extremes(less(row(2, "LayUP"), row(2, "k = 1"))) == ("IN-R (D)", "S-DomainNet")
    assert sorted(less(row(2, "LayUP"), row(2, "k = 1")).values()) == [2.2, 4.1, 5.2]
    assert max(less(row(1, "w/o FSA"), row(1, "k = 1, w/o FSA")).values()) == 9.5
    assert max(less(row(2, "w/o FSA"), row(2, "k = 1, w/o FSA")).values()) == 9.0
    assert row(1, "NMC") == row(3, "NMC")
    online = [row(3, name) for name in ("Sequential FT", "NMC", "RanPAC, λ = 0", "RanPAC, λ = 1")]
    ahead = {name for name in CIL if all(row(3, "LayUP, λ = 1")[name] > other[name] for other in online)}
    assert ahead == set(CIL) - {"CIFAR"}
    for k in (1, 6, 12):  # ten tasks in both
        assert row(7, f"k = {k}, T = 10").items() <= row(4, f"k = {k}").items()
    for name in set(CIL) - {"VTAB"}:
        assert all(row(4, "k = 1")[name] < row(4, f"k = {k}")[name] for k in range(2, 13))
        for tasks in (5, 10, 20):
            values = [row(7, f"k = {k}, T = {tasks}")[name] for k in (1, 6, 12)]
            assert values[0] < min(values[1:])
    assert all(value <= row(1, "LayUP")[name] for name, value in row(4, "k = 6").items())  # the best of six
    assert all(value <= row(1, "RanPAC")[name] for name, value in row(5, "RanPAC").items())


# --- Functions.


def test_gap_closed():
    table = PRINTED["table1"].rows

    def closed(name: str) -> float | None:
        value, baseline, bound = (table[label][name] for label in ("LayUP", "RanPAC", "Joint FT (full)"))
        assert value is not None
        assert baseline is not None
        assert bound is not None
        return gap_closed(value, baseline, bound)

    assert closed("Cars") == pytest.approx(0.8)
    assert closed("CUB") == pytest.approx(-2.75)  # worse than the baseline
    assert closed("VTAB") is None
    assert gap_closed(4, 1, 3) == 1.5  # beyond the bound
    assert gap_closed(2, 1, 1) is None


def test_tables_with_gaps_or_twins_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        parse("method | a | b\nours | 1")
    with pytest.raises(ValueError, match="longer"):
        parse("method | a\nours | 1 | 2")
    with pytest.raises(ValueError, match="'ours'"):
        parse("method | a\nours | 1\nours | 2")
