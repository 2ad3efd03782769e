"""Commands for folders of photos: learn, predict, evaluate, forget, merge, and those about models."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layup import storage
from layup.cli import console
from layup.cli.app import app
from layup.cli.options import (
    AllowBackbone,
    AsJson,
    Engine,
    NoCache,
    Weights,
    Workers,
    first_session,
    number_or_rule,
)
from layup.errors import InputError, StorageError
from layup.formats import duration, size_of

if TYPE_CHECKING:
    from layup.backbones import Backbone
    from layup.model import ImageModel, Predictions
    from layup.tuning import FirstSession


Photos = Annotated[
    Path, typer.Argument(help="A folder that contains one folder of photos per class.", metavar="PHOTOS")
]
Model = Annotated[Path, typer.Argument(help="A .layup file.", metavar="MODEL")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad file instead of skipping it.")]
Lam = Annotated[
    str | None,
    typer.Option(help="Ridge parameter λ: search (the default, as in the paper), gcv, or a number."),
]
Balance = Annotated[
    bool | None,
    typer.Option("--balance/--no-balance", help="Give small and large classes the same weight. Default: on."),
]


@app.command()
def learn(
    photos: Photos,
    to: Annotated[Path, typer.Option(help="The model file. It is created, or extended if it exists.")],
    backbone: Annotated[
        str | None,
        typer.Option(
            help="The pre-trained network: bundled (default), vit-nano, a timm name with its tag, or hf:NAME."
        ),
    ] = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    input_size: Annotated[
        int | None, typer.Option(help="Height and width of the network's input, in pixels.")
    ] = None,
    k: Annotated[
        int | None, typer.Option(help="How many of the last layers to use. Default: by backbone.")
    ] = None,
    lam: Lam = None,
    balance: Balance = None,
    adapt: Annotated[
        str | None,
        typer.Option(
            help="First tune the network to these photos: auto, adaptformer, ssf, vpt, lora or full."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Recipe for tuning: default, paper, or official (as the authors' code)."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of tuning: passes over the photos.", min=1)
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate of tuning.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of tuning.", min=0)] = None,
    engine: Engine = None,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Learn classes from folders of photos, into a new or an existing model.

    layup learn photos/ --to m.layup           photos/CLASS/*.jpg
    layup learn more/ --to m.layup             extend the model, at any time
    layup learn photos/ --to v.layup --backbone vit-nano
    layup learn photos/ --to f.layup --engine folded
    layup learn photos/ --to a.layup --backbone vit-nano --adapt adaptformer

    The photos are not kept, only one sum per class and one matrix. With --adapt,
    a small set of weights is tuned to the photos of the first call, and kept too.
    Tuning takes minutes to hours. If it is interrupted, give the same command
    again to continue.
    """
    from layup.images import class_folders

    session = first_session(adapt, preset=preset, epochs=epochs, learning_rate=learning_rate, seed=seed)
    paths, labels = class_folders(photos)
    with _held(to):
        checkpoint = to.with_name(f"{to.name}.adapting")
        if to.exists():
            wanted = {"backbone": backbone, "input_size": input_size, "k": k, "engine": engine}
            model = _loaded(to, weights, allow_backbone, no_cache, workers)
            _require_extendable(model, to, session, wanted)
        else:
            network = _network(backbone, weights, input_size, engine)
            model = _new(network, k, session, no_cache, workers)
        model.configure(**_given(lam=number_or_rule(lam), balance=balance))
        tuned_before = model.network.adapted
        done = model.learn(paths, labels, strict=strict, checkpoint=checkpoint)
        model.save(to)
        storage.delete(checkpoint)  # only now, when the model is saved
    console.changes(done.counts, model.counts_, "learned")
    console.report_bad(done.bad, paths)
    if model.batches.count(done.id) > 1:
        console.remark("The same photos were learned before, and now count twice. `layup forget` undoes it.")
    console.knowledge(to, model)
    if model.network.adapted and not tuned_before:
        _show_adaptation(model, to.with_name(f"{to.stem}-adaptation.png"))


@app.command()
def predict(
    model: Model,
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.", metavar="IMAGES")],
    as_json: AsJson = False,
    as_csv: Annotated[
        bool,
        typer.Option(
            "--csv", help="Print CSV instead of a table. Names that begin with =, +, - or @ get a ' in front."
        ),
    ] = False,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Predict the classes of photos.

    layup predict m.layup a.jpg b.jpg
    layup predict m.layup holiday/ --csv > labels.csv
    layup predict m.layup a.jpg --json         a list of path, label and scores
    """
    from layup.images import find_images

    if as_json and as_csv:
        raise InputError("Give --json or --csv, not both.")
    loaded = _loaded(model, weights, allow_backbone, no_cache, workers)
    for path in images:
        if not path.exists():
            raise InputError(f"There is no file or folder '{path}'. Nothing was predicted.")
    paths = [file for path in images for file in (find_images(path) if path.is_dir() else [path])]
    found = loaded.predictions(paths)
    _require_usable(found, paths, strict)
    style = "json" if as_json else "csv" if as_csv else "table"
    console.predictions([paths[i] for i in found.kept], found, style)
    console.report_bad(found.bad, paths)


@app.command()
def evaluate(
    model: Model,
    photos: Photos,
    picture: Annotated[
        Path | None, typer.Option(help="File for the confusion matrix. Default: next to the model.")
    ] = None,
    as_json: AsJson = False,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Measure accuracy on photos that a model has not learned: overall, per class, and a confusion matrix.

    layup evaluate m.layup test-photos/        test-photos/CLASS/*.jpg
    """
    from layup.benchmark import metrics, plots
    from layup.images import class_folders

    if picture is not None:
        storage.require_writable(picture)
        plots.require_ending(picture)
    paths, labels = class_folders(photos)
    loaded = _loaded(model, weights, allow_backbone, no_cache, workers)
    found = loaded.predictions(paths)
    _require_usable(found, paths, strict)
    truth = [labels[i] for i in found.kept]
    drawn = picture or model.with_name(f"{model.stem}-confusion.png")
    plots.confusion_matrix(drawn, *metrics.confusion(truth, found.labels))
    overall = metrics.accuracy(truth, found.labels)
    by_class = metrics.per_class_accuracy(truth, found.labels)
    if as_json:
        console.print_json(
            {"accuracy": overall, "images": len(truth), "per_class": by_class, "picture": str(drawn)}
        )
    else:
        console.accuracies(by_class, {label: truth.count(label) for label in by_class})
        console.say(f"Accuracy {overall:.3f} on {len(truth):,} photos.")
        console.say(f"Confusion matrix: {drawn}")
    if unknown := sorted(set(truth) - set(loaded.classes_)):
        console.remark(f"Never learned, so always wrong: {', '.join(unknown)}.")
    console.report_bad(found.bad, paths)


@app.command()
def forget(
    model: Model,
    photos: Photos,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Forget photos exactly: the model's sums become what they would be without these photos.

    layup forget m.layup withdrawn/            withdrawn/CLASS/*.jpg

    λ stays as it is. A class that has no photos left disappears. The cached features of these photos are
    deleted.
    """
    from layup.images import class_folders

    paths, labels = class_folders(photos)
    with _held(model):
        loaded = _loaded(model, weights, allow_backbone, no_cache, workers)
        done = loaded.forget(paths, labels, strict=strict)
        loaded.save(model)
    console.changes(done.counts, loaded.counts_, "forgotten")
    console.report_bad(done.bad, paths)
    console.knowledge(model, loaded)
    if loaded.classifier_.chosen().get("lambda") is not None:
        console.say(f"λ is kept: {loaded.lambda_:g}. What was forgotten may have had a part in choosing it.")
    if loaded.network.adapted:
        console.remark(
            "The network was tuned to the first photos that this model learned: that cannot be forgotten. "
            "If these were among them, only a new model without them is completely free of them."
        )


@app.command()
def merge(
    models: Annotated[list[Path], typer.Argument(help="Two or more .layup files.", metavar="MODELS")],
    to: Annotated[Path, typer.Option(help="Where to write the merged model.")],
    base: Annotated[
        Path | None, typer.Option(help="The model that they all grew from, if they share batches of photos.")
    ] = None,
    lam: Annotated[
        str | None,
        typer.Option(help="New rule for λ: search, gcv, or a number. Default: that of the first model."),
    ] = None,
    balance: Annotated[
        bool | None,
        typer.Option(
            "--balance/--no-balance",
            help="Give small and large classes the same weight. Default: as in the first model.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file at --to if it exists.")
    ] = False,
) -> None:
    """Merge models from several machines: the sums are those of one model that learned everything.

    layup merge berlin.layup lima.layup --to both.layup
    layup merge a.layup b.layup --base old.layup --to new.layup

    In the second example, a and b both grew from old, so a + b − old is computed.
    """
    from layup.model import load, mixed_engines

    if len(models) < 2:
        raise InputError(f"Merging takes at least two models, not {len(models)}.")
    with _held(to):
        if to.exists() and to not in models and not overwrite:
            raise InputError(f"'{to}' exists already. Give another --to, or --overwrite to replace it.")
        merged, *others = (load(path) for path in models)
        ancestor = load(base) if base else None
        for other in others:
            if other.classifier.get_params() != merged.classifier.get_params():
                console.remark(
                    "These models have different rules for λ or balance: those of the first are kept."
                )
            merged.merge(other, ancestor)
            if mixture := mixed_engines(merged, other):
                console.remark(mixture)
        merged.configure(**_given(lam=number_or_rule(lam), balance=balance))
        merged.save(to)
    console.knowledge(to, merged)


@app.command()
def info(model: Model, as_json: AsJson = False) -> None:
    """Check a model file, and show what it holds. Its network is not loaded.

    layup info m.layup
    """
    from layup.model import read_model

    header = read_model(model).header
    if as_json:
        console.print_json(header)
    else:
        console.information(header, model)


@app.command()
def backbones(
    search: Annotated[
        str, typer.Argument(help="Part of a timm name, such as vit_base.", metavar="SEARCH")
    ] = "",
) -> None:
    """List the networks that come with layup, or search those of timm (PyTorch Image Models).

    layup backbones                  networks that work offline
    layup backbones vit_base         timm networks with vit_base in their name
    """
    from layup.backbones import BACKBONES, load_backbone, timm_names

    if search:
        names = timm_names(search)
        if not names:
            raise InputError(
                f"No pre-trained network of timm has {search!r} in its name. Try a shorter part."
            )
        console.table(["--backbone"], [[name] for name in names])
        return
    rows = []
    for name in BACKBONES.built_in:
        network = load_backbone(name)
        height, width = network.preprocessing.size
        values = sum(layer.width for layer in network.layers)
        used = console.share(network.default_k, network.depth)
        rows.append([name, f"{height} × {width}", str(network.depth), f"{values:,}", used])
    console.table(["--backbone", "pixels", "layers", "values", "default k"], rows)
    for name, package in BACKBONES.packages.items():
        console.say(f"{name}: from the installed package {package}.")
    console.say(
        "Also: any timm name with the tag of its weights, downloaded once (layup backbones vit_base lists "
        "some); and hf:NAME or hf:FOLDER, which need pip install 'layup-cl[hf]'."
    )


cache_app = typer.Typer()
app.add_typer(cache_app, name="cache")


@cache_app.callback(invoke_without_command=True)
def cache(context: typer.Context) -> None:
    """Show the cache of computed features; 'layup cache clear' empties it.

    The environment variables LAYUP_CACHE and LAYUP_CACHE_LIMIT (such as 2GB) set its folder and its
    largest size.
    """
    if context.invoked_subcommand:
        return
    from layup.features import FeatureCache

    stats = FeatureCache().stats()
    console.facts(
        {
            "file": stats.path,
            "size": f"{size_of(stats.bytes)} of at most {size_of(stats.limit)}",
            "images": f"{stats.entries:,}",
        }
    )


@cache_app.command()
def clear() -> None:
    """Delete all cached features. Models are not affected; features are computed again when needed."""
    from layup.features import FeatureCache

    store = FeatureCache()
    freed = store.clear()
    if left := store.stats().bytes:
        raise StorageError(f"'{store.path}' could not be deleted: it still holds {size_of(left)}.")
    console.say(f"Freed {size_of(freed)}.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for a picture, a model and a few images.")] = Path("demo"),
) -> None:
    """See it work, offline: ten digits in five tasks, two new classes at a time."""
    from layup.benchmark import plots
    from layup.cli.demo import demo_models, digits_scenario, digits_tasks, run_demo, save_examples

    started = time.monotonic()
    storage.make_folder(out)
    picture, model = out / "curves.png", out / "digits.layup"
    for file in (picture, model):
        storage.require_writable(file)
    scenario = digits_scenario()
    tasks = scenario.tasks
    models = demo_models()
    series: dict[str, list[float]] = {name: [] for name in models}
    with console.live_table(
        "Average accuracy on all digits so far", ["task", "new digits", *models], len(tasks) * len(models)
    ) as (add_row, advance):
        for name, value in run_demo(models, scenario):
            series[name].append(value)
            advance()
            if name == list(models)[-1]:
                task = len(series[name])
                averages = [f"{values[-1]:.3f}" for values in series.values()]
                add_row(str(task), " and ".join(tasks[task - 1].classes), *averages)
    plots.curves(picture, series, "Ten digits, learned two at a time", "average accuracy")
    models[list(models)[-1]].save(model)
    examples = save_examples(out / "images", digits_tasks()[0])
    console.say(f"Done in {duration(time.monotonic() - started)}. Picture: {picture}. Model: {model}. Try:")
    console.say(f"  layup predict {model} {examples[0].parent}")


def _held(path: Path) -> AbstractContextManager[None]:
    """Locks the model while the block runs; a process that has to wait is told who holds it."""
    storage.require_writable(path)
    return storage.locked(
        path, on_wait=lambda holder: console.remark(f"Waiting: '{path}' is in use by {holder} …")
    )


def _loaded(
    path: Path, weights: Path | None, allow_backbone: bool, no_cache: bool, workers: int | None
) -> ImageModel:
    """The model in a file, with the options of the command."""
    from layup.model import load

    return load(path, weights=weights, allow_backbone=allow_backbone, cache=not no_cache, workers=workers)


def _network(name: str | None, weights: Path | None, input_size: int | None, engine: str | None) -> Backbone:
    from layup.backbones import EAGER, load_backbone

    return load_backbone(name or "bundled", weights=weights, input_size=input_size, engine=engine or EAGER)


def _new(
    network: Backbone, k: int | None, session: FirstSession | None, no_cache: bool, workers: int | None
) -> ImageModel:
    from layup.model import LayUP

    return LayUP(network, k, adapter=session, cache=not no_cache, workers=workers)


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _require_extendable(
    model: ImageModel, path: Path, session: FirstSession | None, wanted: dict[str, Any]
) -> None:
    """An existing model keeps its network, engine and k: other values are refused."""
    from layup.backbones import full_name

    if session is not None:
        raise InputError(
            f"'{path}' is a model already: it holds sums of features, and tuning the network now would "
            "change all these features. Leave --adapt out, or start a new model with another --to."
        )
    if wanted["backbone"] is not None:
        wanted = {**wanted, "backbone": full_name(wanted["backbone"])}
    have = {
        "backbone": model.backbone_.name,
        "input_size": model.backbone_.preprocessing.size[0],
        "k": len(model.statistics_.layers),
        "engine": model.network.engine,
    }
    for option, value in wanted.items():
        if value is not None and value != have[option]:
            flag = "--" + option.replace("_", "-")
            raise InputError(
                f"'{path}' was made with {flag} {have[option]}, not {value}. A model keeps these: "
                f"leave {flag} out, or start a new model with another --to."
            )


def _show_adaptation(model: ImageModel, picture: Path) -> None:
    """Draw how the first session went, and say what it did."""
    from layup.benchmark import plots

    about, _ = model.network.state()
    record = about["adapted"]["record"]
    plots.first_session(picture, record["epochs"], record["kept"])
    console.adaptation(about["adapted"], picture)


def _require_usable(found: Predictions, paths: list[Path], strict: bool) -> None:
    if not paths:
        raise InputError("There are no image files among the given paths.")
    if found.bad and (strict or not found.kept):
        raise InputError(found.bad[0].reason)
