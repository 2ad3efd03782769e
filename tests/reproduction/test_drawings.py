"""The paper's figures: what is on their axes, that all of it can be read, and what is refused."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text
from PIL import Image

from layup.benchmark import plots
from layup.benchmark.metrics import Band, Interval, band
from layup.benchmark.plots.canvas import SAFE_COLOURS
from layup.errors import InputError, StorageError
from layup.reproduction import drawings
from layup.reproduction.analysis import ClassChange

DATASETS = [
    "CIFAR-100",
    "ImageNet-R",
    "ImageNet-A",
    "CUB-200",
    "OmniBenchmark",
    "VTAB",
    "Stanford Cars 196",
    "CDDB-Hard",
]
LONG = "a name of a dataset and of a network that is far too long for any panel, number"
METHODS = ["LayUP (k = 6)", "RanPAC", "nearest mean"]
NETWORKS = ["ViT-B/16", "ViT-L/16"]
GROUPS = ["k = 1", "k = 4", "k = 6", "k = 12"]


Change = partial(ClassChange, classes=20)


def bands(names, tasks=6, runs=3, start=0.9):
    rng = np.random.default_rng(0)
    return {name: band(start - 0.1 * i + 0.02 * rng.random((runs, tasks))) for i, name in enumerate(names)}


def interval(value, width=0.02):
    return Interval(value, value - width, value + width, width / 2)


def draw_over_tasks_grid(path, names=DATASETS[:3], series=METHODS):
    row = {"average accuracy Aₜ": bands(series), "forgetting Fₜ": bands(series, start=0.4)}
    plots.over_tasks_grid(path, dict.fromkeys(names, row), "Class-incremental learning")


def draw_per_layer(path, names=DATASETS[:3], series=NETWORKS):
    panel = {name: np.linspace(0.0, 0.5, 11 * (i + 1)).tolist() for i, name in enumerate(series)}
    drawings.per_layer(path, dict.fromkeys(names, panel), "classes better than with the last layer")


def draw_compared_bars(path, names=DATASETS[:3], series=METHODS, groups=GROUPS, lowest=0.1):
    panel = {
        name: [interval(lowest + 0.03 * (i + j)) for i in range(len(groups))] for j, name in enumerate(series)
    }
    drawings.compared_bars(path, dict.fromkeys(names, panel), groups, "average accuracy", "Two classifiers")


def draw_compared_points(path, names=DATASETS[:3], series=METHODS):
    draw_compared_bars(path, names, series, [f"{name} as a group" for name in series], lowest=0.8)


def draw_against_measures(path, names=DATASETS[:3], series=NETWORKS):
    points = [
        drawings.Point(0.001 * i + 0.0001 * j, i / 9, name, network)
        for i, name in enumerate(names)
        for j, network in enumerate(series)
    ]
    measures = ["similarity within classes", "MMD", f"{series[0]}: distance"]
    drawings.against_measures(path, dict.fromkeys(measures, points), "gain of accuracy")


def draw_class_shares(path, names=DATASETS[:3], series=()):
    change = Change(0.5, 0.25, 0.25, gain=0.08, loss=0.03)
    drawings.class_shares(path, dict.fromkeys(names, change), f"From the last to six {''.join(series)}")


def draw_depths(path, names=DATASETS[:3], series=NETWORKS):
    panel = {
        name: [interval(0.7 - 0.05 * i + 0.1 * math.log(k)) for k in range(1, 12 * (i + 1) + 1)]
        for i, name in enumerate(series)
    }
    drawings.depths(path, dict.fromkeys(names, panel), "average accuracy")


DRAWINGS = pytest.mark.parametrize(
    "draw",
    [
        draw_over_tasks_grid,
        draw_per_layer,
        draw_compared_bars,
        draw_compared_points,
        draw_against_measures,
        draw_class_shares,
        draw_depths,
    ],
)


@pytest.fixture
def drawn(monkeypatch):
    """What the drawing function leaves as a figure, instead of a file."""
    found = []
    for module in ("reproduction.drawings", "benchmark.plots.runs"):
        monkeypatch.setattr(f"layup.{module}.save", lambda figure, path: found.append(figure))

    def figure(draw, *args, **options):
        draw("unused.png", *args, **options)
        return found[-1]

    return figure


def pixels(path):
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture.convert("RGB"))


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def ticks(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


# All of them


@pytest.mark.slow
@DRAWINGS
def test_both_endings_are_files_that_are_not_empty(draw, tmp_path):
    draw(tmp_path / "p.png")
    assert Image.fromarray(pixels(tmp_path / "p.png")).getcolors(20) is None  # more than that
    draw(str(tmp_path / "p.svg"))
    assert "<svg" in (tmp_path / "p.svg").read_text()


@pytest.mark.slow
@DRAWINGS
def test_a_path_that_cannot_be_written_is_a_sentence(draw, tmp_path):
    with pytest.raises(StorageError, match="no such folder"):
        draw(tmp_path / "no such folder" / "p.png")
    with pytest.raises(StorageError, match=r"p\.docx.*png"):
        draw(tmp_path / "p.docx")


def shown(figure, monkeypatch):
    """All texts that are drawn on a figure, and the boxes about them, in pixels.

    A figure has more: numbers beyond the ends of axes, for one, which Matplotlib makes but does not draw.
    """
    texts, draw = [], Text.draw
    monkeypatch.setattr(Text, "draw", lambda text, renderer: (texts.append(text), draw(text, renderer)))
    figure.draw_without_rendering()
    boxes = {text: text.get_window_extent() for text in texts if text.get_visible()}
    return {text: box for text, box in boxes.items() if box.width}


@pytest.mark.slow
@DRAWINGS
@pytest.mark.parametrize(
    ("count", "long"),
    [
        pytest.param(1, False, id="1-short"),
        pytest.param(8, True, id="8-long"),
        *(
            pytest.param(count, long, id=f"{count}-{'long' if long else 'short'}", marks=pytest.mark.slow)
            for count, long in ((1, True), (2, False), (2, True), (8, False))
        ),
    ],
)
def test_all_can_be_read_however_many_datasets_and_however_long_their_names(
    draw, count, long, drawn, monkeypatch
):
    if long:
        figure = drawn(draw, [f"{LONG} {i}" for i in range(count)], [f"{LONG} {name}" for name in "ab"])
    else:
        figure = drawn(draw, DATASETS[:count])
    texts = shown(figure, monkeypatch)
    for text, box in texts.items():
        assert text.get_fontsize() >= 8
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width, text.get_text()
        assert 0 <= box.y0 < box.y1 <= figure.bbox.height, text.get_text()
    for (one, first), (other, second) in combinations(texts.items(), 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, down) < 1, (one.get_text(), other.get_text())
    for axes in figure.axes:
        assert axes.bbox.width > 1.4 * figure.dpi
        assert axes.bbox.height > (0.4 * count if draw is draw_class_shares else 1.0) * figure.dpi


@DRAWINGS
def test_names_are_text_and_not_formulas(draw, tmp_path):
    draw(tmp_path / "p.png", [r"$\x$", "_hidden"])
    pixels(tmp_path / "p.png")


@pytest.mark.parametrize("draw", [drawings.per_layer, drawings.depths])
@pytest.mark.parametrize("panels", [{}, {"a": {}}, {"a": {"net": [0.5]}, "b": {}}, {"a": {"net": []}}])
def test_nothing_to_draw_is_a_sentence(draw, panels, tmp_path):
    with pytest.raises(InputError, match="something to draw in each"):
        draw(tmp_path / "p.png", panels, "accuracy")


def test_matplotlib_waits_for_the_first_picture():
    code = "import sys, layup.reproduction.drawings; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_each_public_name_is_there():
    assert all(hasattr(plots, name) for name in plots.__all__)


# Over tasks


def test_a_row_a_dataset_and_a_panel_a_quantity(drawn):
    figure = drawn(draw_over_tasks_grid)
    assert len(figure.axes) == 6
    assert [axes.get_title(loc="left") for axes in figure.axes[::2]] == DATASETS[:3]
    assert [axes.get_ylabel() for axes in figure.axes] == ["average accuracy Aₜ", "forgetting Fₜ"] * 3
    assert [axes.get_xlabel() for axes in figure.axes] == [""] * 4 + ["tasks learned"] * 2
    assert legend(figure) == METHODS
    assert "standard error" in figure.get_suptitle()
    lines = figure.axes[0].lines
    np.testing.assert_allclose(lines[1].get_ydata(), bands(METHODS)["RanPAC"].mean)
    assert lines[1].get_xdata().tolist() == [1, 2, 3, 4, 5, 6]


def test_a_method_looks_the_same_in_all_rows_though_it_is_missing_in_some(drawn):
    rows = {"first": {"A": bands(["x", "y"])}, "second": {"A": bands(["z", "y"]), "F": bands(["y"])}}
    figure = drawn(plots.over_tasks_grid, rows)
    first, second, third = figure.axes
    assert legend(figure) == ["x", "y", "z"]
    assert [line.get_color() for line in first.lines] == [SAFE_COLOURS[0], SAFE_COLOURS[1]]
    assert [line.get_color() for line in second.lines] == [SAFE_COLOURS[2], SAFE_COLOURS[1]]
    assert [line.get_marker() for line in third.lines] == [first.lines[1].get_marker()]
    keys = figure.legends[0].legend_handles
    assert [key.get_color() for key in keys] == list(SAFE_COLOURS[:3])


def test_of_many_tasks_some_have_markers_and_the_last_is_one_of_them(drawn):
    for tasks, (first, step) in ((16, (0, 1)), (100, (1, 7))):
        figure = drawn(plots.over_tasks_grid, {"": {"A": bands(["x"], tasks=tasks)}})
        assert figure.axes[0].lines[0].get_markevery() == (first, step)
        assert (tasks - 1 - first) % step == 0
        assert min(figure.axes[0].get_xticks()) >= 1


def test_a_title_says_nothing_of_a_shade_that_is_not_there(drawn):
    figure = drawn(plots.over_tasks_grid, {"": {"A": bands(["x"], runs=1)}}, "One run")
    assert figure.get_suptitle() == "One run"


def test_no_task_is_a_picture_too(tmp_path):
    plots.over_tasks_grid(tmp_path / "p.png", {"": {"A": {"x": Band(np.array([]), np.array([]))}}})
    pixels(tmp_path / "p.png")


@pytest.mark.parametrize("rows", [{}, {"a": {}}, {"a": {"A": {}}}, {"a": {"A": bands(["x"])}, "b": {}}])
def test_a_row_without_a_line_is_refused(rows, tmp_path):
    with pytest.raises(InputError, match="in each a panel with a method"):
        plots.over_tasks_grid(tmp_path / "p.png", rows)


# Layers


def test_networks_of_any_depth_meet_at_the_last_layer_but_one(drawn):
    panels = {"CIFAR-100": {"small": [0.1, 0.2], "large": [0.0, 0.1, 0.3, 0.4]}, "VTAB": {"large": [0.5] * 4}}
    figure = drawn(drawings.per_layer, panels, "better classes")
    first, second = figure.axes
    assert [line.get_xdata().tolist() for line in first.lines] == [[2, 1], [4, 3, 2, 1]]
    assert first.lines[1].get_ydata().tolist() == [0.0, 0.1, 0.3, 0.4]
    assert first.get_xlim() == (4.5, 0.5)
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[0] == 0
    assert first.get_xlabel() == "layers before the last"
    assert (first.get_ylabel(), second.get_ylabel()) == ("better classes", "")
    assert legend(figure) == ["small", "large"]
    assert second.lines[0].get_color() == first.lines[1].get_color()
    assert {"0 %", "20 %"} <= set(ticks(first.yaxis))


def test_no_better_class_at_all_is_a_line_at_zero(drawn):
    figure = drawn(drawings.per_layer, {"a": {"net": [0.0, 0.0]}}, "better classes")
    assert figure.axes[0].get_ylim() == (0, 1)


@pytest.mark.parametrize("share", [1.5, -0.1, 40.0, math.nan])
def test_shares_are_not_percentages(share, tmp_path):
    with pytest.raises(InputError, match="between 0 and 1"):
        drawings.per_layer(tmp_path / "p.png", {"a": {"net": [0.5, share]}}, "better classes")


# Bars or points


def test_bars_start_at_zero(drawn):
    figure = drawn(draw_compared_bars, DATASETS[:1])
    (axes,) = figure.axes
    assert len(axes.patches) == len(METHODS) * len(GROUPS)
    assert {bar.get_y() for bar in axes.patches} == {0}
    assert [bar.get_height() for bar in axes.patches[:4]] == pytest.approx([0.1, 0.13, 0.16, 0.19])
    assert axes.get_ylim()[0] <= 0
    assert ticks(axes.xaxis) == GROUPS
    assert legend(figure) == METHODS
    assert figure.get_suptitle() == "Two classifiers"
    intervals = [segment[:, 1].tolist() for found in axes.collections for segment in found.get_segments()]
    assert intervals[1] == pytest.approx([0.11, 0.15])
    # in a group, the bars are next to each other
    edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches)
    assert all(end < start for (_, end), (start, _) in pairwise(edges))


def test_points_take_the_place_of_bars_that_would_not_start_at_zero(drawn):
    figure = drawn(draw_compared_points, DATASETS[:2])
    for axes in figure.axes:
        assert len(axes.patches) == 0
        assert axes.get_ylim()[0] > 0.7
        points = [line for line in axes.lines if line.get_linestyle() == "None"]
        assert len(points) == len(METHODS)
        assert points[0].get_ydata().tolist() == pytest.approx([0.8, 0.83, 0.86])


def test_missing_values_are_left_out(drawn):
    alone = Interval(0.2, math.nan, math.nan, math.nan)  # one run has no interval
    panels = {"a": {"x": [None, interval(0.1)], "y": [alone, None]}, "b": {"x": [None, None]}}
    figure = drawn(drawings.compared_bars, panels, ["k = 1", "k = 2"], "accuracy")
    first, second = figure.axes
    assert [bar.get_height() for bar in first.patches] == [0.1, 0.2]
    assert sum(len(found.get_segments()) for found in first.collections) == 1
    assert len(second.patches) == 0
    figure.draw_without_rendering()


def test_differences_may_be_negative(drawn):
    figure = drawn(
        drawings.compared_bars, {"a": {"x": [interval(-0.1), interval(0.1)]}}, ["1", "2"], "change"
    )
    assert [bar.get_height() for bar in figure.axes[0].patches] == [-0.1, 0.1]


def test_a_series_beyond_the_colours_is_empty_and_beyond_twice_as_many_is_refused(drawn):
    panel = {f"series {i}": [interval(0.1 * (i + 1))] for i in range(15)}
    few = dict(list(panel.items())[:14])
    bars = drawn(drawings.compared_bars, {"a": few}, ["1"], "accuracy").axes[0].patches
    looks = Counter((to_hex(bar.get_facecolor()), to_hex(bar.get_edgecolor())) for bar in bars)
    assert max(looks.values()) == 1
    with pytest.raises(InputError, match="15 series cannot be told apart"):
        drawn(drawings.compared_bars, {"a": panel}, ["1"], "accuracy")


def test_each_group_needs_its_value(tmp_path):
    with pytest.raises(InputError, match="each of the 2 groups"):
        drawings.compared_bars(tmp_path / "p.png", {"a": {"x": [interval(0.1)]}}, ["1", "2"], "accuracy")
    with pytest.raises(InputError, match="all values are missing"):
        drawings.compared_bars(tmp_path / "p.png", {"a": {"x": [None]}}, ["1"], "accuracy")
    with pytest.raises(InputError, match="something to draw in each"):
        drawings.compared_bars(tmp_path / "p.png", {}, [], "accuracy")


# Measures


def test_colours_are_datasets_and_markers_are_networks(drawn):
    points = [
        drawings.Point(1.0, 0.1, "CUB", "B"),
        drawings.Point(2.0, 0.2, "CUB", "L"),
        drawings.Point(3.0, 0.3, "R", "B"),
    ]
    figure = drawn(drawings.against_measures, {"MMD": points, "similarity": points[::-1]}, "gain")
    first, second = figure.axes
    assert (first.get_xlabel(), second.get_xlabel()) == ("MMD", "similarity")
    assert (first.get_ylabel(), second.get_ylabel()) == ("gain", "")
    assert legend(figure) == ["CUB", "R", "B", "L"]
    looks = [(line.get_color(), line.get_marker()) for line in first.lines]
    assert looks == [(SAFE_COLOURS[0], "o"), (SAFE_COLOURS[0], "s"), (SAFE_COLOURS[1], "o")]
    assert [(line.get_color(), line.get_marker()) for line in second.lines] == looks[::-1]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in first.lines] == [
        (1, 0.1),
        (2, 0.2),
        (3, 0.3),
    ]
    assert first.get_ylim() == second.get_ylim()


def test_all_datasets_of_the_paper_differ(drawn):
    names = [*DATASETS, "DomainNet", "ImageNet-R (DIL)"]
    figure = drawn(draw_against_measures, names, ["ViT"])
    looks = {(line.get_color(), line.get_fillstyle()) for line in figure.axes[0].lines}
    assert len(looks) == len(names)


def test_points_that_cannot_be_told_apart_are_refused(tmp_path):
    def points(datasets, networks):
        return [drawings.Point(0, 0, f"d{i}", f"n{j}") for i in range(datasets) for j in range(networks)]

    with pytest.raises(InputError, match="15 datasets cannot be told apart"):
        drawings.against_measures(tmp_path / "p.png", {"MMD": points(15, 1)}, "gain")
    with pytest.raises(InputError, match="8 networks cannot be told apart"):
        drawings.against_measures(tmp_path / "p.png", {"MMD": points(1, 8)}, "gain")
    for panels in ({}, {"MMD": []}, {"MMD": points(1, 1), "similarity": []}):
        with pytest.raises(InputError, match="a point in each"):
            drawings.against_measures(tmp_path / "p.png", panels, "gain")


# Shares of classes


def test_shares_of_classes_and_what_these_gained(drawn):
    changes = {
        "CUB": Change(0.6, 0.35, 0.05, gain=0.08, loss=0.03),
        "VTAB": Change(0.0, 1.0, 0.0, gain=0.0, loss=0.0),
    }
    figure = drawn(drawings.class_shares, changes, "k = 1 → k = 6")
    left, right = figure.axes
    assert [bar.get_width() for bar in left.patches] == pytest.approx([0.6, 0.35, 0.05, 0, 1, 0])
    assert [bar.get_x() for bar in left.patches[:3]] == pytest.approx([0.0, 0.6, 0.95])
    assert [text.get_text() for text in left.texts] == ["60 %", "35 %", "100 %"]  # there is no room for 5 %
    assert [bar.get_width() for bar in right.patches] == pytest.approx([8.0, 3.0, 0.0, 0.0])
    assert [text.get_text() for text in right.texts] == ["8.0", "3.0", "none", "none"]
    assert ticks(left.yaxis) == ["CUB", "VTAB"]
    assert left.get_ylim() == right.get_ylim() == (1.5, -0.5)  # the first is the highest
    assert {"0 %", "100 %"} <= set(ticks(left.xaxis))
    assert "percentage points" in right.get_xlabel().replace("\n", " ")
    assert legend(figure) == ["better", "equal", "worse"]
    assert figure.get_suptitle() == "k = 1 → k = 6"


def test_what_is_undefined_without_such_classes_is_not_drawn(tmp_path):
    drawings.class_shares(tmp_path / "p.png", {"VTAB": Change(0.0, 1.0, 0.0, math.nan, math.nan)})
    pixels(tmp_path / "p.png")


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5), (60, 30, 10), (1.2, -0.2, 0.0), (math.nan, 0.5, 0.5)])
def test_shares_add_up_to_one(shares, tmp_path):
    with pytest.raises(InputError, match=r"'CUB'.*do not add up to 1"):
        drawings.class_shares(tmp_path / "p.png", {"CUB": Change(*shares, 0.1, 0.1)})


def test_no_change_of_classes_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="no change of classes"):
        drawings.class_shares(tmp_path / "p.png", {})


# Depths


def test_a_line_a_network_over_depths_and_a_ring_about_its_highest(drawn):
    values = [0.5, 0.7, None, 0.9, 0.8]
    panel = {"B": [None if value is None else interval(value) for value in values], "L": [interval(0.6)] * 2}
    figure = drawn(drawings.depths, {"CUB": panel, "VTAB": {"L": [None, interval(0.4)]}}, "accuracy")
    first, second = figure.axes
    lines = [line for line in first.lines if line.get_fillstyle() != "none"]
    rings = [line for line in first.lines if line.get_fillstyle() == "none"]
    assert lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(lines[0].get_ydata(), [0.5, 0.7, np.nan, 0.9, 0.8])
    assert [(ring.get_xdata()[0], ring.get_ydata()[0]) for ring in rings] == [(4, 0.9), (1, 0.6)]
    assert [ring.get_color() for ring in rings] == [line.get_color() for line in lines]
    assert second.lines[0].get_color() == lines[1].get_color()
    assert legend(figure) == ["B", "L", "highest of its line", "interval"]
    assert first.get_xlabel() == "last layers used, k"
    shade = first.collections[0].get_paths()[0].vertices
    assert (shade[:, 1].min(), shade[:, 1].max()) == pytest.approx((0.48, 0.72))


def test_without_intervals_no_shade_is_spoken_of(drawn):
    flat = [Interval(0.5, 0.5, 0.5, 0.0), Interval(0.6, math.nan, math.nan, math.nan)]
    assert legend(drawn(drawings.depths, {"CUB": {"B": flat}}, "accuracy")) == ["B", "highest of its line"]


def test_a_network_that_was_not_measured_has_no_ring(drawn):
    figure = drawn(drawings.depths, {"CUB": {"B": [None], "L": [interval(0.5)]}}, "accuracy")
    assert len(figure.axes[0].lines) == 3
    with pytest.raises(InputError, match="all values are missing"):
        drawn(drawings.depths, {"CUB": {"B": [None, None]}}, "accuracy")


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_numbers_make_the_same_file(tmp_path, ending):
    for name in ("one", "two"):
        drawings.per_layer(tmp_path / f"{name}.{ending}", {"digits": {"vit-nano": [0.1, 0.2]}}, "share")
    one, two = (tmp_path / f"{name}.{ending}" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
