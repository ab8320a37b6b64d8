"""Rules on which the sections of ``model.toml`` must agree, for values that are each valid on their own.

A rule ignores keys that already have a mistake of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from builder.config.address import ARCHIVES, FORMS, Address, is_address, parse_address
from builder.config.checkpoints import explain_if_weights
from builder.config.model_spec import sound_shapes
from builder.config.output_rules import COMPILED, FETCHES, check_output, find_activated_fetch
from builder.config.schema import WITH_MODEL, Format
from builder.config.tensor import c_identifier
from builder.config.toml_tables import SpecTable, SpecTables

_EXTENSIONS: dict[str, Format] = {
    ".keras": "keras",
    ".h5": "h5",
    ".hdf5": "h5",
    ".pb": "graph_def",
    ".pbtxt": "graph_def",
    ".jax": "jax",
    ".pt2": "pytorch",
    ".onnx": "onnx",
    ".tflite": "tflite",
    ".ubj": "xgboost",
    ".skops": "sklearn",
    ".joblib": "sklearn",
    ".pkl": "sklearn",
    ".pickle": "sklearn",
}

_GENERAL_EXTENSIONS: dict[str, Format] = {".json": "xgboost", ".txt": "lightgbm"}
"""The formats of models whose extensions any other file may have."""

EXTENSIONS = ", ".join([*_EXTENSIONS, *_GENERAL_EXTENSIONS])
"""The extensions of models that are files, for messages."""

CODE: Mapping[Format, tuple[str, str]] = {
    "h5": (".h5", "ask its author for a .keras file"),
    "pytorch": (".pt2", ""),
    "sklearn": ("pickled", "ask its author for a .skops file"),
}
"""Formats whose files may run code when they are loaded: what they are called, and the advice without trust."""

FRAMEWORK_FORMATS: tuple[Format, ...] = (
    "jax", "pytorch", "transformers", "keras_hub", "onnx", "tflite", "xgboost", "lightgbm", "sklearn"
)  # fmt: skip
"""Formats that TensorFlow does not read; each becomes a StableHLO program in an environment of its own."""

KERAS: tuple[Format, ...] = ("keras", "h5")
"""Formats of files that Keras writes."""

TREES: tuple[Format, ...] = ("xgboost", "lightgbm", "sklearn")
"""Formats of models that may be trees."""

LEAVES = "leaves"
"""The only signature of trees, and the fetch that it adds."""

SAVED_MODEL = ("saved_model.pb", "saved_model.pbtxt")
"""The files that make a folder a SavedModel."""

_TRANSFORMERS = ("modules.json", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""The files that, beside config.json, make a folder a model of transformers, as any .safetensors does."""

_PRESET = ("model.weights.h5", "model.weights.json")
"""The files that, beside config.json, make a folder a preset of KerasHub: its weights, or where they are."""

FOLDERS: Mapping[Format, str] = {
    "saved_model": "SavedModel",
    "transformers": "model of transformers",
    "keras_hub": "preset of KerasHub",
}
"""Formats of models that are folders, in words."""

REPOSITORIES: tuple[Format, ...] = ("transformers", "keras_hub")
"""Formats of whole repositories of Hugging Face's hub, the usual one first."""

NO_FOLDER = "a folder without saved_model.pb, and without config.json and model.safetensors or model.weights.h5"
"""A folder that is no model, in words."""


def guess_format(name: str) -> Format | None:
    """Return the format that a file's extension tells, if it does."""
    return _EXTENSIONS.get(Path(name).suffix.lower())


def guess_model_format(name: str) -> Format | None:
    """Return the format that the extension of a file tells which is known to be a model, if it does."""
    return guess_format(name) or _GENERAL_EXTENSIONS.get(Path(name).suffix.lower())


def may_run_code(form: Format, name: str) -> bool:
    """Return whether the file ``name`` may run code when it is loaded. A .skops file loads nothing but data."""
    return form in CODE and Path(name).suffix.lower() != ".skops"


def is_saved_model(path: Path) -> bool:
    """Return whether ``path`` is a folder with a SavedModel in it."""
    return any((path / name).is_file() for name in SAVED_MODEL)


def guess_folder_format(path: Path) -> Format | None:
    """Return the format that the files in a folder tell, if it is a model."""
    return guess_files_format({file.name for file in path.iterdir() if file.is_file()}) if path.is_dir() else None


def guess_files_format(names: Collection[str]) -> Format | None:
    """Return the format of the model that is a folder with files of these ``names``, if it is one."""
    if any(name in names for name in SAVED_MODEL):
        return "saved_model"
    if "config.json" not in names:
        return None
    if any(name in _TRANSFORMERS or name.endswith(".safetensors") for name in names):
        return "transformers"
    return "keras_hub" if any(name in names for name in _PRESET) else None


def name_whole_model(path: Path) -> str | None:
    """Explain that the file ``path`` is a part of a model that is a folder, if it is one."""
    if path.name in SAVED_MODEL:
        return "is a file of a SavedModel; name its folder"
    is_part = path.name in ("config.json", *_TRANSFORMERS, *_PRESET) or path.suffix == ".safetensors"
    form = guess_folder_format(path.parent) if is_part else None
    return f"is a file of a {FOLDERS[form]}; name its folder" if form in REPOSITORIES else None


def find_source_format(model: SpecTable, folder: Path) -> Format | None:
    """Return the source's format, written or guessed; None, with a mistake noted, when it cannot be known."""
    written: Format | None = model.get("format")
    name = model.get("source") or model.get("file")
    if "format" in model.present or name is None:
        return written
    if is_address(model.get("source") or ""):
        return _guess_remote_format(model, name)
    path = folder / name
    if "source" in model.values and (why := name_whole_model(path)):
        model.note_mistake("source", f'"{name}" {why}: "{Path(name).parent.as_posix()}"')
        return None
    if why := explain_if_weights(path):
        model.note_mistake("source" if "source" in model.values else "file", why)
        return None
    if "source" in model.values and (form := guess_folder_format(path)):
        return form
    if path.suffix.lower() == ".json" and "weights" in model.present:
        return "h5"
    if guessed := guess_model_format(name):
        return guessed
    key = "source" if "source" in model.values else "file"
    state = "" if key == "file" or path.exists() else " (and there is no such file or folder)"
    state = f" (it is {NO_FOLDER})" if key == "source" and path.is_dir() else state
    says = model.section.keys["format"].kind.says
    model.note_mistake(key, f'"{name}" does not tell its format{state}; add format: {says}')
    return None


def _parse_source(model: SpecTable) -> Address | None:
    """Return the source's address, if it is a valid one."""
    try:
        return parse_address(model.get("source") or "")
    except ValueError:
        return None


def _guess_remote_format(model: SpecTable, source: str) -> Format | None:
    """Guess the format of a remote model from its name alone. An archive without ``file`` holds a folder.

    Return None for an invalid address, which ``_check_origin`` reports.
    """
    address, file = _parse_source(model), model.get("file")
    if address is None or (file is None and address.kind == "mlflow"):
        return None
    if address.is_repository and file is None:
        return REPOSITORIES[0]
    if file is not None or address.is_archive:
        return guess_format(file or "") or "saved_model"
    if guessed := guess_model_format(address.path):
        return guessed
    says = model.section.keys["format"].kind.says
    model.note_mistake("source", f'"{address.shown}" does not tell its format; add format: {says}')
    return None


def name_ports(tables: SpecTables) -> None:
    """Unify names of feeds and fetches: "x:0" becomes "x" when [[feeds]] has "x", and an alias replaces its name."""
    for _, own in split_signatures(tables):
        feeds = {_normalise_tensor_name(name): name for feed in own.feeds if (name := feed.values.get("name"))}
        fetches = {
            _normalise_tensor_name(name): _read_visible_name(fetch)
            for fetch in own.fetches
            if (name := fetch.values.get("name"))
        }
        fetches |= {_normalise_tensor_name(name): name for name in map(_read_visible_name, own.fetches) if name}
        for table in (own.image, own.audio):
            if table and (feed := table.values.get("feed")):
                table.values["feed"] = feeds.get(_normalise_tensor_name(feed), feed)
        for key in ("ids", "mask", "types"):
            if own.text and (feed := own.text.values.get(key)):
                own.text.values[key] = feeds.get(_normalise_tensor_name(feed), feed)
        for output in own.outputs:
            for key in FETCHES:
                if fetch := output.values.get(key):
                    output.values[key] = fetches.get(_normalise_tensor_name(fetch), fetch)


def split_signatures(tables: SpecTables) -> list[tuple[str, SpecTables]]:
    """Return each signature that ``tables`` name, with its tables; the first has the image, the sound or the text.

    Without signatures, return one entry.
    """
    names = tables.model.get("signature") or ("",)

    def of(name: str, entries: tuple[SpecTable, ...]) -> tuple[SpecTable, ...]:
        return tuple(entry for entry in entries if entry.values.get("signature", names[0]) == name)

    signatures = []
    for name in names:
        feeds, fetches, outputs = of(name, tables.feeds), of(name, tables.fetches), of(name, tables.outputs)
        own = replace(tables, feeds=feeds, fetches=fetches, outputs=outputs)
        if name != names[0]:
            own = replace(own, image=None, audio=None, text=None)
        signatures.append((name, own))
    return signatures


def check_tables(tables: SpecTables, form: Format | None) -> None:
    """Note every disagreement; ``form`` is None when the format could not be known."""
    _check_origin(tables.model)
    if form is not None:
        _check_format(tables, form)
    _check_signatures(tables)
    signatures = [own for _, own in split_signatures(tables)]
    for own in signatures:
        _check_distinct(own.feeds, "name", lambda feed: feed.values.get("name"))
        _check_distinct(own.fetches, "name", lambda fetch: fetch.values.get("name"))
        _check_distinct(own.fetches, "alias", _read_visible_name)
        for feed in own.feeds:
            for key in sorted({"lengths", "pad", "shapes"} & feed.present) if "value" in feed.present else ():
                feed.note_mistake(key, "is of what callers pass, and value takes its place; keep one of them")
        _check_shapes(own.feeds)
        _check_lengths(own.feeds)
        if own.image:
            _check_image(own.image, own, form)
        if own.audio:
            _check_audio(own.audio, own, form)
        if own.text:
            _check_text(own.text, own, form)
        for output in own.outputs:
            images = own.image is not None or (form == "saved_model" and _may_take_strings(own, form))
            check_output(output, images, own.text is not None or _may_take_strings(own, form))
        _check_output_fetches(own)
    _check_golden(signatures[0])
    _check_weights(signatures[0])
    _check_activations(signatures[0])


def _check_signatures(tables: SpecTables) -> None:
    """Note signatures that other sections name and [model] does not, and any two with the same name in C."""
    names = tables.model.get("signature") or ()
    written = [c_identifier(name) for name in names]
    for number, name in enumerate(written):
        if (earlier := written.index(name)) != number:
            why = f'"{names[number]}" and "{names[earlier]}" are both {name} in C; leave one of them out'
            tables.model.note_mistake("signature", why, number)
    if "signature" in tables.model.present and not names:
        return  # This has a mistake of its own.
    for entry in (*tables.feeds, *tables.fetches, *tables.outputs):
        signature = entry.values.get("signature")
        if signature is not None and signature not in names:
            right = f"use {' or '.join(names)}" if names else "name the signatures under [model]"
            entry.note_mistake("signature", f'"{signature}" is not a signature of [model]; {right}')


def _normalise_tensor_name(name: str) -> str:
    """Return the same name for "x" and "x:0"."""
    return name.removesuffix(":0")


def _check_origin(model: SpecTable) -> None:
    if not model.present & {"source", "package"}:
        model.note_mistake("source", 'is missing; name the trained model: source = "model.keras"')
    elif {"source", "package"} <= model.present:
        model.note_mistake("package", "cannot be used together with source; keep only the one where the model is")
    elif "package" in model.present:
        for key in ("file", "sha256"):
            if key not in model.present:
                model.note_mistake(
                    key, f"is missing; a model from a package needs it: {model.section.keys[key].kind.says}"
                )
    elif is_address(model.get("source") or ""):
        _check_address(model)
    elif "file" in model.present:
        model.note_mistake("file", "needs package; name the package too, or name only source")


def _check_address(model: SpecTable) -> None:
    """Check the address of a model, and the keys that go with it. Messages show nothing secret."""
    try:
        address = parse_address(model.values["source"])
    except ValueError as error:
        model.note_mistake("source", str(error))
        return
    if address.kind == "mlflow" and "file" not in model.present:
        model.note_mistake("file", 'is missing; name the model in what MLflow keeps: file = "data/model.keras"')
    form: Format | None = model.get("format") or (REPOSITORIES[0] if address.is_repository else None)
    lone = address.kind in ("https", "s3", "hf") and not (address.is_archive or address.is_repository)
    if address.is_repository and (form not in REPOSITORIES or "file" in model.present):
        what = "an archive" if "file" in model.present else "a file"
        model.note_mistake("source", f"names a repository and not {what} of it; write it like {FORMS['hf']}")
    elif lone and form and form in FOLDERS:
        right = f"name an archive ({', '.join(ARCHIVES)})"
        right += ", or a repository: hf://org/repo@COMMIT" if form in REPOSITORIES else ""
        model.note_mistake("source", f"a {FOLDERS[form]} is a folder, and one file is fetched; {right}")


def _check_format(tables: SpecTables, form: Format) -> None:
    model = tables.model
    name = model.get("file") or model.get("source") or ""
    if may_run_code(form, name) and model.get("trust") is False:
        kind, instead = CODE[form]
        model.note_mistake(
            "trust",
            f"is not set; a {kind} file may run code when it is loaded: if you trust where this one comes from, "
            f"write trust = true{instead and f', else {instead}'}",
        )
    if what := FOLDERS.get(form):
        address = _parse_source(model)
        if "package" in model.present:
            why = f"a {what} is a folder, and only one file is taken from a package"
            model.note_mistake("package", f"{why}; unpack it and use source")
        elif "sha256" in model.present and (not address or address.kind == "mlflow" or address.is_repository):
            model.note_mistake("sha256", f"a {what} is a folder and has no SHA-256; delete this line")
    if form in TREES:
        for number, name in enumerate(model.get("signature") or ()):
            if name != LEAVES:
                why = f'"{name}" is no signature of trees; write "{LEAVES}", or delete this line'
                model.note_mistake("signature", why, number)
    elif form == "transformers":
        if len(model.get("signature") or ()) > 1:
            model.note_mistake("signature", "are models of their own; write a model.toml for each of them")
    elif form not in ("saved_model", "tflite") and "signature" in model.present:
        model.note_mistake("signature", "a model of this format has no signatures; delete this line")
    if form not in KERAS and "keras" in model.present:
        model.note_mistake("keras", "only a Keras file is read by one; delete this line")
    if "weights" in model.present and not (form == "h5" and (model.get("source") or "").lower().endswith(".json")):
        model.note_mistake("weights", "only an architecture in JSON has its weights in another file; delete this line")
    if form != "graph_def" and "config" in model.present:
        model.note_mistake("config", "only a frozen graph takes one; delete it and use [[feeds]] and [[fetches]]")
    elif form == "graph_def" and "config" not in model.present and not (tables.feeds and tables.fetches):
        why = "a frozen graph does not say what goes in and out"
        model.note_mistake("config", f"is missing; {why}: add [[feeds]] and [[fetches]], or config")


def _read_visible_name(fetch: SpecTable) -> str | None:
    """Return the name that callers see."""
    return fetch.values.get("alias") or fetch.values.get("name")


def _check_distinct(tables: Sequence[SpecTable], key: str, name_of: Callable[[SpecTable], str | None]) -> None:
    """Check that names differ; the second of two is at fault, at ``key`` or else at the name that replaces it."""
    first: dict[str, SpecTable] = {}
    for table in tables:
        name = name_of(table)
        if name is None or first.setdefault(_normalise_tensor_name(name), table) is table:
            continue
        other = first[_normalise_tensor_name(name)]
        places = [key if key in entry.present else "fetch" if key == "name" else "name" for entry in (other, table)]
        if key == "alias" and places == ["name", "name"]:
            continue  # two equal names are reported already
        line = table.lines.find_line((*other.path, places[0]))
        table.note_mistake(places[1], f'"{name}" is taken by line {line}; each must differ')


def _check_shapes(feeds: Sequence[SpecTable]) -> None:
    """Check several shapes: each feed that has several has the same number, and no two sizes are equal."""
    several = [feed for feed in feeds if "shapes" in feed.values]
    for feed in several:
        if "shape" in feed.present:
            feed.note_mistake("shapes", "cannot be used together with shape; keep one of them")
        if len({len(shape) for shape in feed.values["shapes"]}) > 1:
            right = "all shapes of an input must have the same number"
            feed.note_mistake("shapes", f"have different numbers of dimensions; {right}")
    if not _check_equal_counts(several, "shapes"):
        return
    sizes = list(zip(*(feed.values["shapes"] for feed in several), strict=True))
    for number, size in enumerate(sizes):
        if (earlier := sizes.index(size)) != number:
            several[0].note_mistake("shapes", f"item {number + 1} is item {earlier + 1}; each must differ", number)


def _check_equal_counts(feeds: Sequence[SpecTable], key: str) -> bool:
    """Return whether all ``feeds`` have as many values at ``key`` as the first; note the first that does not."""
    for feed in feeds:
        count, wanted, name = len(feed.values[key]), len(feeds[0].values[key]), feeds[0].values.get("name")
        if count != wanted:
            feed.note_mistake(key, f"{count} given, but {wanted} for {name!r}; give each the same number")
            return False
    return True


def _check_lengths(feeds: Sequence[SpecTable]) -> None:
    """Check lengths of texts: they ascend, inputs with lengths have equally many, and no input has several shapes."""
    several = [feed for feed in feeds if "lengths" in feed.values]
    for feed in feeds:
        if "truncate" in feed.present and "lengths" not in feed.present:
            right = "say for which it is compiled: lengths = [16, 64, 256]"
            feed.note_mistake("truncate", f"is of texts of any length; {right}")
    for feed in several:
        lengths: Sequence[int] = feed.values["lengths"]
        for number, (less, more) in enumerate(pairwise(lengths), 1):
            if less >= more:
                why = f"{more} comes after {less}; each must be more than the one before"
                feed.note_mistake("lengths", why, number)
                break
        for key in sorted({"pad", "shapes"} & feed.present):
            feed.note_mistake(key, "is of numbers, and lengths are of strings; keep one of them")
    _check_equal_counts(several, "lengths")
    if several and (other := next((feed for feed in feeds if "shapes" in feed.present and feed not in several), None)):
        name = several[0].values.get("name")
        other.note_mistake("shapes", f"cannot stand beside lengths of {name!r}; give one shape")


def _check_image(image: SpecTable, tables: SpecTables, form: Format | None) -> None:
    mode = image.get("mode")
    channels = 1 if mode == "grey" else 3
    for key in ("scale", "mean", "padding", "background"):
        values = image.values.get(key)
        if mode and values and len(values) not in (1, channels):
            wanted = "one" if channels == 1 else "one, or one for each of 3 channels"
            image.note_mistake(key, f'has {len(values)} values; mode "{mode}" wants {wanted}')
    if mode == "grey" and image.get("channel_order") == "bgr":
        image.note_mistake("channel_order", 'a grey image has one channel; delete this line, or write mode = "rgb"')
    grid, resize, antialias = image.get("grid"), image.get("resize"), image.get("antialias")
    sampled = resize == "nearest" or (resize == "bilinear" and not antialias)
    if grid not in (None, "half_pixel") and not sampled and None not in (resize, antialias):
        right = 'use resize = "nearest", or "bilinear" with antialias = false'
        image.note_mistake("grid", f'"{grid}" is for pixels that are sampled; {right}')
    _check_image_shape(image, tables, _find_feed(image, tables, form, "the image"), channels)


def _find_feed(table: SpecTable, tables: SpecTables, form: Format | None, what: str) -> str | None:
    """Return the feed that takes ``what`` of [image] or [audio], if that can be told."""
    names = _list_feeds(tables, form)
    feed: str | None = table.get("feed")
    if "feed" not in table.present and len(names) > 1:
        table.note_mistake("feed", f"is missing; say which feed takes {what}: {' or '.join(names)}")
    elif feed is not None and names and feed not in names:
        table.note_mistake("feed", f'"{feed}" is not one of [[feeds]]; use {" or ".join(names)}')
    return feed or (names[0] if len(names) == 1 else None)


def _list_feeds(tables: SpecTables, form: Format | None) -> list[str]:
    """Return the model's feeds, if [[feeds]] has all of them: a frozen graph's does, others may have more."""
    feeds = [feed for feed in tables.feeds if "value" not in feed.present]
    names = [feed.values["name"] for feed in feeds if "name" in feed.values]
    listed = form == "graph_def" and "config" not in tables.model.present
    return names if listed and len(names) == len(feeds) else []


def _check_image_shape(image: SpecTable, tables: SpecTables, feed: str | None, channels: int) -> None:
    batches, height, width = tables.model.get("batch"), image.get("height"), image.get("width")
    batch = min(batches) if batches else None
    if feed is None or None in (batch, height, width, image.get("mode")):
        return
    last, first = (batch, height, width, channels), (batch, channels, height, width)
    full = first if image.get("layout") == "channels_first" else last
    # Models may take flattened images, or grey ones without a channel dimension.
    allowed = {full, (batch, height * width * channels)} | ({last[:3]} if channels == 1 else set())
    allowed |= set() if image.get("layout") else {first}
    for table in tables.feeds:
        if table.values.get("name") != feed:
            continue
        shapes = table.values.get("shapes") or (table.values.get("shape"),)
        key = "shapes" if "shapes" in table.values else "shape"
        if shapes[0] is not None and shapes[0] not in allowed:
            right = f"[image] and batch make it {list(full)}: correct one of them, or delete this line"
            table.note_mistake(key, f"{'begin with' if shapes[1:] else 'is'} {list(shapes[0])}; {right}")
        planes = shapes[0] == first != last or full == first
        for number, shape in enumerate(shapes[1:], 1):
            if len(shape) < 3 or _without_sides(shape, planes) != _without_sides(shapes[0] or full, planes):
                sides = f"{channels}, height, width" if planes else f"height, width, {channels}"
                table.note_mistake(key, f"item {number + 1} is {list(shape)}; images are [{batch}, {sides}]", number)
        if "pad" in table.values:
            table.note_mistake("pad", "is for an input that takes images, and images are resized; delete this line")
        _check_no_nan(table, "images")


def _without_sides(shape: tuple[Any, ...], planes: bool) -> tuple[Any, ...]:
    """Return the ``shape`` of images, ``planes`` or pixels, without their height and width."""
    return shape[:2] if planes else shape[:1] + shape[3:]


def _check_no_nan(feed: SpecTable, what: str) -> None:
    if feed.get("nan"):
        feed.note_mistake("nan", f"is for an input that takes {what}, which has no NaN; delete this line")


def _check_audio(audio: SpecTable, tables: SpecTables, form: Format | None) -> None:
    length, hop, batches = audio.get("length"), audio.get("hop"), tables.model.get("batch")
    if tables.image:
        audio.note_mistake(
            "length", "[image] is there too; a model takes images or sound: delete one of the two tables"
        )
    if length and hop and hop > length:
        audio.note_mistake(
            "hop", f"is {hop:,}, and samples between windows would be left out; use at most length, {length:,}"
        )
    for output in tables.outputs:
        if (name := output.values.get("name")) in ("start", "end"):
            output.note_mistake("name", f'"{name}" is the time of a window in answers; choose another name')
    feed = _find_feed(audio, tables, form, "the sound")
    for table in tables.feeds:
        if feed is None or table.values.get("name") != feed:
            continue
        for key in sorted({"shapes", "pad"} & table.present):
            table.note_mistake(
                key, "is for an input that takes sound, and all windows have one length; delete this line"
            )
        _check_no_nan(table, "sound")
        shape = table.values.get("shape")
        if shape and length and batches and shape not in sound_shapes(min(batches), length):
            right = f"[audio] and batch make it {[min(batches), length]}: correct one of them, or delete this line"
            table.note_mistake("shape", f"is {list(shape)}; {right}")


def _check_text(text: SpecTable, tables: SpecTables, form: Format | None) -> None:
    if tables.image or tables.audio:
        kind = "[image]" if tables.image else "[audio]"
        text.note_mistake(
            "tokenizer", f"{kind} is there too; a model takes one of the two: delete one of the two tables"
        )
    files = text.present & {"tokenizer", "vocabulary"}
    if not files:
        text.note_mistake("tokenizer", 'is missing; name what the model was trained with: tokenizer = "tokenizer.json"')
    elif len(files) > 1:
        text.note_mistake("vocabulary", "cannot be used together with tokenizer; keep one of them")
    elif "lowercase" in text.present and "tokenizer" in files:
        text.note_mistake("lowercase", "only a vocabulary needs it, a tokenizer says so itself; delete this line")
    _check_text_inside(text, tables.model)
    names = _list_feeds(tables, form)
    for key in ("ids", "mask", "types"):
        if names and (name := text.values.get(key)) and name not in names:
            text.note_mistake(key, f'"{name}" is not one of [[feeds]]; use {" or ".join(names)}')
    feeds = [name for key in ("ids", "mask", "types") if (name := text.values.get(key))]
    if len(set(feeds)) < len(feeds):
        text.note_mistake("ids", "is the same input as another; each of ids, mask and types must have its own")
    prompts = [name for name, _ in text.get("prompts") or ()]
    if (default := text.values.get("default_prompt")) and default not in prompts:
        right = f"use {' or '.join(prompts)}" if prompts else "add prompts, a table of strings"
        text.note_mistake("default_prompt", f'"{default}" is not one of prompts; {right}')
    for key in sorted({"prompts", "pairs"} & text.present):
        if text.values.get(key) and any(output.get("kind") == "tokens" for output in tables.outputs):
            text.note_mistake(key, 'kind = "tokens" answers where words stand in one text as sent; delete this line')


def _check_text_inside(text: SpecTable, model: SpecTable) -> None:
    """Check the keys of a tokenizer that comes with the model."""
    comes_with_model = False
    for key in ("tokenizer", "vocabulary"):
        value = text.values.get(key) or ""
        if not value.startswith(WITH_MODEL):
            continue
        comes_with_model = True
        path = value.removeprefix(WITH_MODEL)
        if problems := list(model.section.keys["file"].kind.find_problems(path)):
            text.note_mistake(key, problems[0][1])
        elif "package" not in model.present and _parse_source(model) is None:
            text.note_mistake(key, "source is a path on this disk, and nothing comes with it; name the file's own path")
    if "sha256" in text.present and not comes_with_model:
        text.note_mistake("sha256", f"is for a file that comes with the model, {WITH_MODEL}PATH; delete this line")


def _check_golden(tables: SpecTables) -> None:
    samples = tables.golden.get("samples")
    if samples and not (tables.image or tables.audio or tables.text) and not samples.endswith(".npz"):
        right = "name an .npz file of arrays, or add [image], [audio] or [text]"
        what = "images, recordings or texts"
        tables.golden.note_mistake("samples", f'"{samples}" would be {what}, and the model takes none; {right}')


def _check_weights(tables: SpecTables) -> None:
    weights = tables.weights
    if weights.get("type") != "auto":
        for key in sorted({"accuracy", "images"} & weights.present):
            weights.note_mistake(key, 'only type = "auto" uses it; write that, or delete this line')
    elif not any(output.get("kind") == "classification" for output in tables.outputs):
        right = 'name a type, or add [[outputs]] with kind = "classification"'
        weights.note_mistake("type", f'"auto" compares the top class of a classification, and there is none; {right}')
    elif "images" in weights.values and tables.image is None:
        weights.note_mistake("images", "are images, and the model takes none; add [image], or delete this line")


def _check_activations(tables: SpecTables) -> None:
    activations = tables.activations
    kinds = {weights for layer in tables.layers if (weights := layer.get("weights"))}
    for layer in tables.layers:
        if not {"weights", "activations"} & layer.present:
            layer.note_mistake("weights", "is missing, and so is activations; add one of them, or delete this table")
    rounded = [t for t in tables.layers if t.get("activations") == "int8"]
    rounded = [activations] * (activations.get("type") == "int8") + rounded
    if "images" in activations.present and not rounded and "type" not in activations.present:
        activations.note_mistake("images", 'only type = "int8" uses it; write that, or delete this line')
    elif "images" in activations.values and tables.image is None:
        activations.note_mistake("images", "are images, and the model takes none; add [image], or delete this line")
    if rounded and tables.weights.get("type") in ("float32", "float16", "bfloat16") and "int8" not in kinds:
        key = "type" if rounded[0] is activations else "activations"
        right = 'write [weights] type = "int8", or delete this line'
        rounded[0].note_mistake(key, f'"int8" is for layers with int8 weights, and there are none; {right}')


def _may_take_strings(tables: SpecTables, form: Format | None) -> bool:
    """Return whether a model may take strings, or a SavedModel images as files, which only the model can tell."""
    return not (tables.image or tables.audio) and form not in FRAMEWORK_FORMATS


def _check_output_fetches(tables: SpecTables) -> None:
    """Check the fetches that outputs read."""
    visible = [name for name in map(_read_visible_name, tables.fetches) if name is not None]
    several = len(tables.outputs) > 1 or len(visible) > 1
    which = f": {' or '.join(visible)}" if visible else ""
    for output in tables.outputs:
        if "fetch" not in output.present and several and output.get("kind") != "detection":
            output.note_mistake("fetch", f"is missing; with several results, each output must name its own{which}")
        for key in FETCHES:
            fetch = output.get(key)
            if fetch is not None and len(visible) == len(tables.fetches) > 0 and fetch not in visible:
                output.note_mistake(key, f'"{fetch}" is not one of [[fetches]]; use {" or ".join(visible)}')
    applied: dict[str, SpecTable] = {}
    for output in tables.outputs:
        fetch = find_activated_fetch(output)
        if fetch is None or applied.setdefault(fetch, output) is output:
            continue
        for key in COMPILED:
            own, other = output.get(key), applied[fetch].get(key)
            wrong = any(key in entry.present and entry.get(key) is None for entry in (output, applied[fetch]))
            if own != other and not wrong:
                shown = f'"{other}"' if isinstance(other, str) else str(other).lower()
                output.note_mistake(key, f'another output has {shown} on "{fetch}"; one result has one {key}')
    _check_distinct(tables.outputs, "name", lambda output: output.values.get("name", output.values.get("fetch")))
