"""Folders of transformers, and presets of KerasHub: on this disk, and in a repository, whose files come one by one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.cache import content_digest
from builder.base.errors import ColdforgeError, EnvironmentSetupError, ImportModelError, SpecError
from builder.base.project import Project
from builder.config import ModelSpec, Source, TextSpec, read_spec, render_spec
from builder.config.address import parse_address
from builder.config.rules import guess_folder_format
from builder.importers.draft import draft_spec
from builder.importers.onnx_data import list_source_files
from builder.importers.ports import ModelPorts, PortInfo
from builder.pipeline.docker.docker_run import build_mounts
from builder.pipeline.pack_bundle import list_model_materials
from builder.sources import Bounds, fetched_digest, find_source, list_named_files, locate_model, locate_text_file
from builder.sources.transformers_folder import FolderFiles
from tests.support.sources import QUICK, packed, site, spec_of, unchanged
from tests.support.website import Website, says, website

__all__ = ["site"]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ADDRESS = f"hf://org/All-MiniLM.v2@{COMMIT}"
WEIGHTS = bytes(range(256)) * 400
TOKEN = "hf_s3cr3t"
MODEL = {"config.json": b"{}", "model.safetensors": WEIGHTS, "tokenizer.json": b'{"model": {}}', "vocab.txt": b"[PAD]"}
OTHERS = {
    ".gitattributes": b"",
    "README.md": b"",
    "onnx/model.onnx": b"onnx",
    "onnx/config.json": b"{}",
    "openvino/openvino_model.bin": b"",
    "pytorch_model.bin": b"pickle",
    "tf_model.h5": b"",
    "flax_model.msgpack": b"",
    "chat_template.jinja": b"",
    "picture.png": b"",
    "model.fp16.safetensors": b"",
}
SHARDED = {
    "config.json": b"{}",
    "model.safetensors.index.json": json.dumps({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}).encode(),
    "1.safetensors": b"one",
    "2.safetensors": b"two",
}
PICKLED = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
MODULES = {
    "modules.json": json.dumps([{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}]).encode(),
    "1_Pooling/config.json": b"{}",
    "2_Dense/config.json": b"{}",
    "2_Dense/model.safetensors": b"dense",
}
PRESET = {
    "config.json": b"{}",
    "task.json": b"{}",
    "task.weights.h5": b"head",
    "model.weights.json": json.dumps({"weight_map": {"/a": ["model_00000.weights.h5"]}}).encode(),
    "model_00000.weights.h5": b"one",
    "assets/tokenizer/vocabulary.txt": b"[PAD]",
}
UNWANTED = {"1_Pooling/README.md": b"", "2_Dense/pytorch_model.bin": b"", "3_Other/config.json": b"{}"}
PORTS = ModelPorts((PortInfo("input_ids", "int64", (None, 8)),), (PortInfo("y", "float32", (None, 3)),), None, ())


class Hub:
    """The hub, where main is COMMIT, and the host of its large files."""

    def __init__(self, site: Website, large: Website) -> None:
        self.site, self.large = site, large

    def publish(self, files: dict[str, bytes], listed: dict[str, bytes] | None = None) -> None:
        """Serve ``files``, and list these or ``listed``, of which weights are on the other host."""
        rows = [{"rfilename": name, "size": len(data)} for name, data in (listed or files).items()]
        for revision in ("main", COMMIT):
            about = json.dumps({"sha": COMMIT, "siblings": rows}).encode()
            self.site.answers[f"/api/models/org/All-MiniLM.v2/revision/{revision}"] = says(200, about)
        for name, data in files.items():
            place, large = f"/org/All-MiniLM.v2/resolve/{COMMIT}/{name}", data == WEIGHTS
            if large:
                self.large.files["/blob"] = data
                tag = f'"{hashlib.sha256(data).hexdigest()}"'
                self.site.answers[place] = says(302, Location=f"{self.large.origin}/blob", X_Linked_Etag=tag)
            else:
                self.site.files[place] = data


@pytest.fixture
def hub(site: Website, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_ENDPOINT", site.origin)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with website() as large:
        yield Hub(site, large)


def remote(folder: Path, address: str = ADDRESS, *, trust: bool = False) -> ModelSpec:
    return spec_of(folder, Source("transformers", None, trust=trust, address=parse_address(address)))


def located(folder: Path, address: str = ADDRESS, *, trust: bool = False, bounds: Bounds = QUICK) -> Path:
    return locate_model(remote(folder, address, trust=trust), folder / "cache", bounds=bounds)


def refused(folder: Path, address: str = ADDRESS, bounds: Bounds = QUICK) -> ColdforgeError:
    with pytest.raises(ColdforgeError) as caught:
        located(folder, address, bounds=bounds)
    assert TOKEN not in str(caught.value)
    assert str(caught.value).isascii()
    return caught.value


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_what_is_fetched_of_a_repository(hub: Hub, tmp_path: Path) -> None:
    hub.publish(MODEL | OTHERS)
    hub.large.cuts = [1000]
    path = located(tmp_path)
    assert contents(path) == MODEL
    assert path.name == "All-MiniLM.v2"
    assert path.parent.name == content_digest(path)["dirHash"]
    assert [asked.headers.get("range") for asked in hub.large.requests] == [None, "bytes=1000-"]
    assert not any("authorization" in asked.headers for asked in hub.large.requests)
    asked = len(hub.site.requests)
    with unchanged(tmp_path):
        assert located(tmp_path) == path
    assert len(hub.site.requests) == asked, "the commit's digest is recorded"
    assert list((tmp_path / "cache/models/downloads").iterdir()) == []


def test_a_spoilt_file_is_fetched_again_and_no_other(hub: Hub, tmp_path: Path) -> None:
    hub.publish(MODEL)
    path = located(tmp_path)
    (path / "vocab.txt").write_bytes(b"spoilt")
    hub.site.requests.clear()
    assert contents(located(tmp_path)) == MODEL
    assert [url for url in hub.site.paths() if "/resolve/" in url] == [f"/org/All-MiniLM.v2/resolve/{COMMIT}/vocab.txt"]


@pytest.mark.parametrize(
    ("files", "others"),
    [
        (SHARDED, {"3.safetensors": b""}),
        (MODEL | MODULES, UNWANTED),
        (MODEL | {"tokenizer.model": b"pieces"}, {}),
        (PRESET, {"a/b.h5": b"", "README.md": b""}),
    ],
)
def test_shards_modules_and_pieces(files: dict[str, bytes], others: dict[str, bytes], hub: Hub, tmp_path: Path) -> None:
    hub.publish(files | others)
    assert contents(located(tmp_path)) == files


def test_files_that_came_are_not_fetched_again_after_one_broke_off(hub: Hub, tmp_path: Path) -> None:
    hub.publish(MODEL)
    hub.large.cuts = [1000] + [0] * 20
    assert "model.safetensors" in str(refused(tmp_path))
    came = [url for url in hub.site.paths() if url.endswith(("config.json", "tokenizer.json"))]
    hub.large.cuts.clear()
    hub.large.requests.clear()
    assert contents(located(tmp_path)) == MODEL
    assert [asked.headers.get("range") for asked in hub.large.requests] == ["bytes=1000-"]
    assert [url for url in hub.site.paths() if url.endswith(("config.json", "tokenizer.json"))][: len(came)] == came
    assert hub.site.paths().count(f"/org/All-MiniLM.v2/resolve/{COMMIT}/config.json") == 1


def test_other_bytes_than_the_hub_says(hub: Hub, tmp_path: Path) -> None:
    hub.publish(MODEL)
    hub.large.files["/blob"] = WEIGHTS[::-1]
    assert "model.safetensors" in (said := str(refused(tmp_path)))
    assert "came with other bytes than its host says" in said


@pytest.mark.parametrize("revision", ["", "@main"])
def test_a_branch_is_refused_with_the_line_that_pins_it(hub: Hub, tmp_path: Path, revision: str) -> None:
    hub.publish(MODEL)
    assert f'source = "{ADDRESS}"' in str(refused(tmp_path, f"hf://org/All-MiniLM.v2{revision}"))
    source, path = find_source(f"hf://org/All-MiniLM.v2{revision}", tmp_path / "cache", bounds=QUICK)
    assert source.address == parse_address(ADDRESS)
    assert (source.format, source.sha256) == ("transformers", None)
    assert contents(path) == MODEL


@pytest.mark.parametrize(
    ("status", "code", "kind", "why"),
    [
        (401, "RepoNotFound", ImportModelError, "no model org/All-MiniLM.v2, or HF_TOKEN may not see it"),
        (404, "RevisionNotFound", ImportModelError, f"no branch, tag or commit {COMMIT}"),
        (403, "GatedRepo", EnvironmentSetupError, "accepted, do so at https://huggingface.co/org/All-MiniLM.v2"),
    ],
)
def test_what_the_hub_refuses(
    status: int, code: str, kind: type[ColdforgeError], why: str, hub: Hub, tmp_path: Path
) -> None:
    answer = says(status, X_Error_Code=code, X_Error_Message=TOKEN)
    if code == "GatedRepo":  # The hub still lists the files.
        hub.publish(MODEL)
        hub.site.answers[f"/org/All-MiniLM.v2/resolve/{COMMIT}/config.json"] = answer
    else:
        hub.site.answers[f"/api/models/org/All-MiniLM.v2/revision/{COMMIT}"] = answer
    error = refused(tmp_path)
    assert isinstance(error, kind)
    assert why in str(error)


def test_pickles_want_trust(hub: Hub, tmp_path: Path) -> None:
    hub.publish(PICKLED | OTHERS)
    why = r"(?s)weights as a pickle alone \(pytorch_model.bin\).*Ask its author for model.safetensors.*trust = true"
    assert re.search(why, str(refused(tmp_path)))
    assert hub.site.paths()[1:] == [], "nothing is fetched"
    with pytest.raises(ImportModelError, match="add --trust"):
        find_source(ADDRESS, tmp_path / "cache", bounds=QUICK)
    assert contents(located(tmp_path, trust=True)) == PICKLED
    assert find_source(ADDRESS, tmp_path / "cache", bounds=QUICK, trust=True)[0].trust
    assert re.search(why, str(refused(tmp_path))), "though it is in the cache"


def test_all_files_together_are_limited(hub: Hub, tmp_path: Path) -> None:
    hub.publish(MODEL, dict.fromkeys(MODEL, b""))
    assert "model.safetensors" in (said := str(refused(tmp_path, bounds=replace(QUICK, bytes=len(WEIGHTS)))))
    assert "more than" in said
    hub.publish(MODEL)
    hub.site.requests.clear()
    assert "than any function can hold" in str(refused(tmp_path, bounds=replace(QUICK, bytes=len(WEIGHTS))))
    assert "than any function can hold" in str(refused(tmp_path, bounds=replace(QUICK, files=3)))
    assert [url for url in hub.site.paths() if "/resolve/" in url] == []


HOSTILE: dict[str, tuple[dict[str, bytes], str]] = {
    "backslash": (MODEL | {"..\\x.json": b""}, "whose name leads elsewhere"),
    "control": (MODEL | {"\x1b[2J.json": b""}, r"name leads elsewhere: \\x1b\[2J"),
    "shard above": (SHARDED, "../../x.safetensors, which is not one of .safetensors beside it"),
    "shard of another kind": (SHARDED, ".gitattributes, which is not one of"),
    "shard below": (SHARDED, "a/x.safetensors, which is not one of"),
    "shard that is missing": (SHARDED, "3.safetensors, which is missing"),
    "module above": (MODEL | MODULES, r"does not name folders in its own: a/\.\./\.\./x"),
    "module at the root": (MODEL | MODULES, "does not name folders in its own: /etc"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_names_that_lead_out(case: str, hub: Hub, tmp_path: Path) -> None:
    files, why = HOSTILE[case]
    if case.startswith("shard"):
        index = {"weight_map": {"a": "1.safetensors", "b": why.partition(",")[0]}}
        files = files | {"model.safetensors.index.json": json.dumps(index).encode()}
    elif case.startswith("module"):
        place = "/etc" if "root" in case else "a/../../x"
        files = files | {"modules.json": json.dumps([{"path": place}]).encode(), f"{place}/config.json": b"{}"}
    hub.publish({name: data for name, data in files.items() if name.isprintable()}, files)
    error = refused(tmp_path)
    assert isinstance(error, ImportModelError)
    assert re.search(why, str(error))
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(tmp_path / "cache" / "models") for path in kept)


@pytest.mark.parametrize("index", [b"3", b"{", b'{"weight_map": {}}', b"[" * 100_000, b'{"weight_map": {"a": 3}}'])
def test_a_damaged_index(index: bytes, hub: Hub, tmp_path: Path) -> None:
    hub.publish(SHARDED | {"model.safetensors.index.json": index})
    assert "model.safetensors.index.json of hf://org/All-MiniLM.v2" in str(refused(tmp_path))
    hub.publish(MODEL | {"modules.json": index})
    assert "modules.json of hf://org/All-MiniLM.v2" in str(refused(tmp_path))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (["README.md", "x.gguf"], r"no config.json. It has x.gguf, README.md. Name a model that is a file of .keras"),
        (["config.json", "onnx/a.onnx"], rf'(?s)no model.safetensors.*source = "hf://org/.*/onnx/a.onnx@{COMMIT}"'),
        (["config.json", "tf_model.h5"], "It has tf_model.h5, config.json. Name a model that is a file of"),
        (["a\u202e.onnx"], r"It has a\\u202e.onnx"),
        ([], "It has no files"),
    ],
)
def test_a_repository_of_something_else(files: list[str], why: str, hub: Hub, tmp_path: Path) -> None:
    hub.publish({}, dict.fromkeys(files, b""))
    assert re.search(why, str(refused(tmp_path)))
    assert [url for url in hub.site.paths() if "/resolve/" in url] == []


PATTERNS = re.compile(
    r"[^/]*\.(json|txt|model)|(sub/|sub/deep/)?(config\.json|model\.safetensors(\.index\.json)?)"
    r"|(sub/|sub/deep/)?[12]\.safetensors"
)
PICKLES = re.compile(r"(sub/|sub/deep/)?(pytorch_model\.bin(\.index\.json)?|[12]\.bin)")
names = st.one_of(
    st.text(min_size=1, max_size=12),
    st.builds(
        "{}{}".format,
        st.sampled_from(["", "sub/", "sub/deep/", "onnx/", "../", "/", "sub/../"]),
        st.sampled_from(
            [*SHARDED, *MODEL, *PICKLED, "modules.json", "pytorch_model.bin.index.json", "a.model", "b.onnx"]
        ),
    ),
)
shards = st.sampled_from(["1.safetensors", "2.safetensors", "../x.safetensors", "b.onnx", 3, "sub/1.safetensors"])
modules = st.sampled_from(["", ".", "sub", "./sub/", "sub/deep", "..", "/", None])
indexes: st.SearchStrategy[Any] = st.dictionaries(st.just("a"), shards).map(lambda names: {"weight_map": names})


@given(st.sets(names).map(lambda some: some | {"config.json"}), indexes, st.lists(modules), st.booleans())
def test_only_names_of_the_patterns_are_chosen(
    tmp_path_factory: pytest.TempPathFactory, listed: set[str], index: Any, places: list[Any], trust: bool
) -> None:
    folder = tmp_path_factory.mktemp("read")
    (folder / "index").write_text(json.dumps(index))
    (folder / "modules").write_text(json.dumps([{"path": place} for place in places]))

    def find(name: str) -> Path:
        return folder / ("modules" if name == "modules.json" else "index")

    try:
        chosen = FolderFiles("it", listed, find, str, trust).choose_names()
    except ImportModelError:
        return
    assert set(chosen) <= listed
    assert len(set(chosen)) == len(chosen)
    for name in chosen:
        assert PATTERNS.fullmatch(name) or (trust and PICKLES.fullmatch(name)), name


def test_a_spec_is_drafted_and_read_back(hub: Hub, tmp_path: Path) -> None:
    hub.publish(MODEL)
    origin, model = find_source("hf://org/All-MiniLM.v2", tmp_path / "cache", bounds=QUICK)
    toml = tmp_path / "model.toml"
    text = draft_spec(model, lambda source, path: PORTS, toml=toml, origin=origin).format_toml()
    toml.write_text(text, encoding="utf-8")
    spec = read_spec(toml)
    assert f'\nsource = "{ADDRESS}"\n' in text
    assert "\nformat = " not in text
    assert spec.name == "all-minilm_v2"
    assert spec.source.format == "transformers"
    assert spec.text == TextSpec(None, inside=("tokenizer", "tokenizer.json"))
    assert not spec.source.archived
    assert locate_model(spec, tmp_path / "cache", bounds=QUICK) == model
    found = locate_text_file(spec, tmp_path / "cache", bounds=QUICK)
    assert found.text
    assert found.text.file == model / "tokenizer.json"
    assert ("tokenizer tokenizer.json", model / "tokenizer.json") in [*list_named_files(found)]
    wrong = replace(spec, text=TextSpec(None, inside=("tokenizer", "tokeniser.json")))
    with pytest.raises(ImportModelError, match=r"has no tokeniser.json. Did you mean tokenizer.json"):
        locate_text_file(wrong, tmp_path / "cache", bounds=QUICK)


def test_where_the_folder_comes_from_is_recorded(hub: Hub, tmp_path: Path) -> None:
    hub.publish(MODEL)
    source, path = remote(tmp_path).source, located(tmp_path)
    digest = content_digest(path)
    assert fetched_digest(source, tmp_path / "cache") == {"sha256": digest["dirHash"]}
    (material,) = list_model_materials(source, path, tmp_path / "cache")
    assert (material.name, material.digest, material.uri) == ("trained model All-MiniLM.v2", digest, ADDRESS)
    assert list_source_files(source, path) == [path]


@pytest.mark.parametrize("files", [MODEL, SHARDED, MODEL | MODULES], ids=["one file", "shards", "modules"])
def test_a_folder_on_this_disk(files: dict[str, bytes], tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "net", files | OTHERS | UNWANTED)
    toml = tmp_path / "model.toml"
    toml.write_text('[model]\nsource = "net"\n')
    spec = read_spec(toml)
    assert (spec.source.format, guess_folder_format(folder)) == ("transformers", "transformers")
    assert locate_model(spec, tmp_path / "cache") == folder
    assert 'format = "transformers"' in render_spec(spec)
    drafted = draft_spec(folder, lambda source, path: PORTS).spec
    assert (drafted.name, drafted.source) == ("net", Source("transformers", folder))
    assert (drafted.text and drafted.text.file) == (folder / "tokenizer.json" if "vocab.txt" in files else None)


def test_a_folder_on_this_disk_with_pickles_wants_trust(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "net", PICKLED)
    assert guess_folder_format(folder) == "transformers"
    with pytest.raises(ImportModelError, match=r"net has its weights as a pickle alone"):
        locate_model(spec_of(tmp_path, Source("transformers", folder)), tmp_path)
    assert locate_model(spec_of(tmp_path, Source("transformers", folder, trust=True)), tmp_path) == folder
    write_folder(folder, MODEL | MODULES)
    (folder / "2_Dense/model.safetensors").rename(folder / "2_Dense/pytorch_model.bin")
    with pytest.raises(ImportModelError, match=r"pickle alone \(2_Dense/pytorch_model.bin\)"):
        locate_model(spec_of(tmp_path, Source("transformers", folder)), tmp_path)


def test_links_that_lead_out_of_a_folder(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "net", MODEL)
    spec = spec_of(tmp_path, Source("transformers", folder))
    (folder / "special_tokens_map.json").symlink_to("tokenizer.json")
    assert locate_model(spec, tmp_path) == folder
    (tmp_path / "secret").touch()
    (folder / "merges.txt").symlink_to("../secret")
    with pytest.raises(ImportModelError, match=r"merges.txt in .* is a link that leads out of the folder.*cp -rL"):
        locate_model(spec, tmp_path)


def test_a_clone_without_its_large_files(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    folder = write_folder(tmp_path / "net", MODEL | {"model.safetensors": pointer})
    with pytest.raises(ImportModelError, match=r"model.safetensors in .*net is only Git's pointer.*git lfs pull"):
        locate_model(spec_of(tmp_path, Source("transformers", folder)), tmp_path)


def test_a_preset_of_a_repository(hub: Hub, tmp_path: Path) -> None:
    hub.publish(PRESET)
    origin, model = find_source("hf://org/All-MiniLM.v2", tmp_path / "cache", bounds=QUICK)
    toml = tmp_path / "model.toml"
    toml.write_text(draft_spec(model, lambda source, path: PORTS, toml=toml, origin=origin).format_toml())
    spec = read_spec(toml)
    assert (origin.format, spec.source) == ("keras_hub", origin)
    assert locate_model(spec, tmp_path / "cache", bounds=QUICK) == model


def test_a_preset_in_an_archive(site: Website, tmp_path: Path) -> None:
    site.files["/preset.tar.gz"] = packed(PRESET)
    origin, model = find_source(f"{site.origin}/preset.tar.gz", tmp_path / "cache", bounds=QUICK)
    assert contents(model) == PRESET
    toml = tmp_path / "model.toml"
    toml.write_text(draft_spec(model, lambda source, path: PORTS, toml=toml, origin=origin).format_toml())
    assert (origin.format, read_spec(toml).source) == ("keras_hub", origin)


def test_a_preset_on_this_disk(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "net", PRESET)
    (tmp_path / "model.toml").write_text('[model]\nsource = "net"\n')
    spec = read_spec(tmp_path / "model.toml")
    assert (spec.source.format, locate_model(spec, tmp_path / "cache")) == ("keras_hub", folder)
    (tmp_path / "secret").touch()
    (folder / "preprocessor.json").symlink_to("../secret")
    with pytest.raises(ImportModelError, match=r"preprocessor.json in .* is a link that leads out of the folder"):
        locate_model(spec, tmp_path)
    with pytest.raises(ImportModelError, match="is a file of a preset of KerasHub; name its folder"):
        draft_spec(folder / "model.weights.json", lambda source, path: PORTS)


@pytest.mark.parametrize("place", ["", "minilm/"])
def test_a_folder_in_an_archive(place: str, site: Website, tmp_path: Path) -> None:
    files = MODEL | MODULES | {"onnx/model.onnx": b""}
    site.files["/nets.tar.gz"] = packed({f"{place}{name}": data for name, data in files.items()})
    origin, model = find_source(f"{site.origin}/nets.tar.gz", tmp_path / "cache", bounds=QUICK)
    assert contents(model) == files
    toml = tmp_path / "model.toml"
    text = draft_spec(model, lambda source, path: PORTS, toml=toml, origin=origin).format_toml()
    toml.write_text(text)
    spec = read_spec(toml)
    assert (spec.source, spec.source.format, spec.source.file) == (origin, "transformers", None)
    assert f'\ntokenizer = "model:{place}tokenizer.json"\n' in text
    found = locate_text_file(spec, tmp_path / "cache", bounds=QUICK).text
    assert found == TextSpec(model / "tokenizer.json", inside=("tokenizer", f"{place}tokenizer.json"))
    toml.write_text(text.replace('format = "transformers"\n', ""))
    with pytest.raises(ImportModelError, match=r'has no SavedModel(.|\n)*\n  format = "transformers"'):
        locate_model(read_spec(toml), tmp_path / "cache", bounds=QUICK)


def test_a_container_gets_the_folder_and_no_other(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    hub.publish(MODEL)
    project, spec = Project(tmp_path), remote(tmp_path)
    spec.path.touch()
    model = locate_model(spec, project.cache, bounds=QUICK)
    (tmp_path / "scratch").mkdir()
    mounts = build_mounts(spec, project, model, tmp_path, tmp_path / "scratch")
    names = {mount.source.name for mount in mounts if mount.source.is_relative_to(project.cache)}
    assert names == {model.parent.name, "revisions"}


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_of_a_folder_is_not_the_model(name: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "net", MODEL)
    (tmp_path / "model.toml").write_text(f'[model]\nsource = "net/{name}"\n')
    with pytest.raises(SpecError, match='is a file of a model of transformers; name its folder: "net"'):
        read_spec(tmp_path / "model.toml")
    with pytest.raises(ImportModelError, match=r"is a file of a model of transformers; name its folder, .*net\."):
        draft_spec(tmp_path / "net" / name, lambda source, path: PORTS)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    write_folder(tmp_path / "net", {"config.json": b"{}"})
    (tmp_path / "model.toml").write_text('[model]\nsource = "net"\n')
    both = r"without saved_model.pb, and without config.json and model.safetensors or model.weights.h5"
    with pytest.raises(SpecError, match=both):
        read_spec(tmp_path / "model.toml")
    with pytest.raises(ImportModelError, match=both):
        draft_spec(tmp_path / "net", lambda source, path: PORTS)
    with pytest.raises(ImportModelError, match=r"net is no model of transformers, as it has no model\.safetensors"):
        locate_model(spec_of(tmp_path, Source("transformers", tmp_path / "net")), tmp_path)
    with pytest.raises(ImportModelError, match="must name a model's folder"):
        locate_model(spec_of(tmp_path, Source("transformers", tmp_path / "net" / "config.json")), tmp_path)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (f'source = "{ADDRESS}"\nformat = "onnx"', "names a repository and not a file of it; write it like hf://org"),
        (f'source = "{ADDRESS}"\nfile = "a.onnx"', "names a repository and not an archive of it"),
        (f'source = "{ADDRESS}"\nsha256 = "{"0" * 64}"', "a model of transformers is a folder and has no SHA-256"),
        ('source = "https://a.b/m"\nformat = "transformers"', "one file is fetched; name an archive"),
        (f'package = "a==1"\nfile = "b"\nsha256 = "{"0" * 64}"\nformat = "transformers"', "taken from a package"),
    ],
)
def test_keys_that_do_not_go_together(lines: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(f"[model]\n{lines}\n")
    with pytest.raises(SpecError, match=re.escape(why)):
        read_spec(tmp_path / "model.toml")
