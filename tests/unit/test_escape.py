"""Text from a model in every place where it is printed, read back by a real parser of that place."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import tokenize
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from builder.base import escape
from builder.base.console_tables import format_table
from builder.base.errors import LowerError
from builder.base.progress import Progress
from builder.compiler.emit.header import format_header
from builder.compiler.lower.program import BoundState
from builder.config import FeedSpec, render_spec
from builder.config.tensor import TensorSpec
from builder.measure.local.run_event import format_try_command
from builder.release.bindings.build_bindings import generate_binding
from builder.release.bindings.language_packages import LANGUAGES
from tests.support.abi_library import picture_description
from tests.support.every_step import EVERY_STEP, SPEC, arena
from tests.support.hostile import NAMES
from tests.support.needs import missing
from tests.support.pages import ROOT
from tests.unit.test_bindings import parts_of

ANYTHING = st.one_of(st.sampled_from(NAMES), st.text(st.characters(exclude_categories=()), max_size=30))
ORDINARY = st.from_regex(r"[A-Za-z0-9_.:/][A-Za-z0-9_.:/ -]*", fullmatch=True)
SCALARS = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
"""What becomes of half a surrogate pair in a language that cannot write it."""


def seen(text: str) -> bool:
    """Whether a terminal shows ``text`` as it is."""
    return all(c.isprintable() or c in "\n\t" for c in text)


@given(ORDINARY)
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    plain = " ".join(name.split())
    for function in (escape.escape_invisible, escape.escape_terminal):
        assert function(name) == name
    assert [
        f(plain) for f in (escape.escape_comment, escape.escape_docstring, escape.escape_html, escape.escape_markdown)
    ] == ([plain.replace("/*", "/ *")] * 2 + [plain] * 2)
    for literal in (escape.c_string, escape.c_literal, escape.rust_string, escape.go_string, escape.python_string):
        assert literal(name) == f'"{name}"'
    assert escape.toml_string(name) == escape.javascript_string(name) == f'"{name}"'


@given(ANYTHING)
def test_what_is_shown_can_be_seen(text: str) -> None:
    assert seen(escape.escape_terminal(text))
    for one_line in (
        escape.escape_invisible,
        escape.escape_comment,
        escape.escape_docstring,
        escape.escape_html,
        escape.quote_shell,
        escape.json_line,
    ):
        assert seen(shown := one_line(text))
        assert "\n" not in shown
        assert "\t" not in shown


@given(ANYTHING)
def test_a_comment_neither_ends_nor_begins_another(text: str) -> None:
    line = escape.escape_comment(text)
    assert not re.search(r"\*/|/\*|\?\?", line)
    assert not re.search(r"\?\?/", escape.c_string(text))
    tokens = [
        t.type for t in tokenize.generate_tokens(io.StringIO(f'"""{escape.escape_docstring(text)}."""\n').readline)
    ]
    assert tokens == [tokenize.STRING, tokenize.NEWLINE, tokenize.ENDMARKER]


@given(ANYTHING)
def test_literals_are_read_back(text: str) -> None:
    assert ast.literal_eval(escape.python_string(text)) == text
    assert json.loads(escape.javascript_string(text)) == text.encode("utf-16", "surrogatepass").decode(
        "utf-16", "surrogatepass"
    )
    assert json.loads(escape.json_line("x" + text)) is not None if seen(text) else True
    assert tomllib.loads(f"x = {escape.toml_string(text)}") == {"x": text.translate(SCALARS)}


@given(ANYTHING)
def test_html_is_text(text: str) -> None:
    found: list[Any] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            found.append((tag, attrs))

        def handle_data(self, data: str) -> None:
            found.append(data)

        def handle_comment(self, data: str) -> None:
            found.append(("comment", data))

    reader = Reader()
    reader.feed(f'<p title="{escape.escape_html(text)}">{escape.escape_html("x" + text)}</p>')
    reader.close()
    shown = escape.escape_invisible(text)
    assert found[0] == ("p", [("title", shown)])
    assert "".join(found[1:]) == "x" + shown


@given(ANYTHING)
@example("[a](b) ![a](b) <b> `c` | d")
def test_markdown_is_text(text: str) -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parseInline(f"a {escape.escape_markdown(text)} z")
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "em_open", "em_close", "strong_open", "strong_close", "text_special"}


LINKED = ("@octocat", "@org/team", "a@b.example", "mailto:a@b.example", "#12", "o/r#12", "HTTPS://a.example/x")
LINKED += ("http://a.example", "_https://a.example", "ftp://a.example", "www.a.example", "(WWW.a.example)")


def test_markdown_mentions_nobody_and_links_to_nothing() -> None:
    """As pymdownx.magiclink finds what GitHub links, in the packages of the site."""
    python = ROOT / ".venv-docs" / "bin" / "python"
    if not python.exists():
        missing("there is no .venv-docs (make docs installs it)")
    code = (
        "import json, sys, markdown\n"
        "github = {'provider': 'github', 'user': 'o', 'repo': 'r', 'repo_url_shorthand': True,\n"
        "          'social_url_shorthand': True}\n"
        "for text in json.load(sys.stdin):\n"
        "    html = markdown.markdown(text, extensions=['pymdownx.magiclink'],\n"
        "                             extension_configs={'pymdownx.magiclink': github})\n"
        "    print(html.count('<a '))\n"
    )
    texts = [f"x {text} y" for text in (*LINKED, *map(escape.escape_markdown, (*LINKED, *NAMES)))]
    done = subprocess.run([python, "-c", code], input=json.dumps(texts), capture_output=True, text=True, check=True)
    links = [int(line) for line in done.stdout.split()]
    assert min(links[: len(LINKED)]) > 0  # as they are
    assert max(links[len(LINKED) :]) == 0
    assert "GH&#8203;-3" in escape.escape_markdown("GH-3")  # which magiclink does not know


def test_a_word_of_a_shell(tmp_path: Path) -> None:
    words = [escape.quote_shell(name) for name in NAMES]
    script = "\n".join(f"printf '%s\\n' {word}" for word in words)
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == list(map(escape.escape_invisible, NAMES))
    assert not list(tmp_path.iterdir())


def test_a_function_of_xla_has_a_name() -> None:
    assert escape.c_name("fused_add.1".replace(".", "_")) == "fused_add_1"
    for name in (*NAMES, "", "1x", "x y"):
        with pytest.raises(LowerError, match="report this model"):
            escape.c_name(name)


def hostile_description(name: str) -> dict[str, Any]:
    """A picture's model that calls everything ``name``."""
    text = json.dumps(picture_description(mode="rgb"))
    description: dict[str, Any] = json.loads(text)
    for port in (*description["feeds"], *description["fetches"]):
        port["name"] += name
    description["image"]["feed"] += name
    for output in description["outputs"]:
        output["name"] += name
        output["fetch"] += name
        output["labels"] = [label + name for label in output["labels"]]
    return description


@pytest.mark.parametrize("name", NAMES)
def test_generated_packages_stay_what_they_are(name: str, tmp_path: Path) -> None:
    for language in LANGUAGES:
        parts = parts_of(tmp_path / language / "parts", hostile_description(name))
        generate_binding(language, parts, out := tmp_path / language / "out")
        for path in (p for p in out.rglob("*") if p.suffix in (".md", ".py", ".rs", ".go", ".h", ".c", ".mts")):
            assert seen(path.read_text()), path
    python = tmp_path / "python" / "out"
    for path in python.glob("brightness/*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert "abort" not in {function.attr for function in calls if hasattr(function, "attr")}
    assert tomllib.loads((python / "pyproject.toml").read_text())["project"]["name"] == "brightness"
    assert json.loads((tmp_path / "node" / "out" / "package.json").read_text())["private"] is True
    assert tomllib.loads((tmp_path / "rust" / "out" / "Cargo.toml").read_text())["package"]["name"] == "brightness"


@pytest.mark.parametrize("name", NAMES)
def test_a_model_toml_says_nothing_more(name: str) -> None:
    notes = {"feeds.0": name, "feeds.0.shape": name}
    text = render_spec(replace(SPEC, feeds=(FeedSpec(name, (1, 2)),)), notes)
    (feed,) = tomllib.loads(text)["feeds"]
    assert feed == {"name": name.translate(SCALARS), "shape": [1, 2]}


@pytest.mark.parametrize("name", NAMES)
def test_the_header_has_no_code_of_the_model(name: str) -> None:
    state = BoundState(TensorSpec(name, "float32", (1,)), 0, arena(0, 4), arena(4, 4), arena(8, 4))
    text = format_header(replace(EVERY_STEP, states=(state,)))
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    assert "cf_attack" not in code
    assert seen(text)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_person_sees(name: str) -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    with progress.show_stage("import", name) as outcome:
        outcome.note = name
    assert stream.getvalue().count("\n") == 1
    progress.show_lines(name)
    assert seen(stream.getvalue())
    assert format_table(("a",), [(name,)]).count("\n") == 2
    tried = format_try_command(["m"], {"image": None, "feeds": [{"name": name, "dtype": "int8", "shape": [1]}]})
    assert seen(tried)
    assert tried.count("\n") == 1


@settings(max_examples=20)
@given(ANYTHING)
def test_c_strings_are_ascii(text: str) -> None:
    assert escape.c_string(text).isascii()
    assert "\n" not in escape.c_literal(text)


def test_the_text_of_an_error_is_whole_harmless_and_on_one_line() -> None:
    error = ValueError("\x1b[1mfirst\x1b[0m\n  second\x07 " + "x" * 3000 + " last")
    assert escape.describe_error(error) == "first second\\x07 " + "x" * 3000 + " last"


def test_of_an_endless_error_the_beginning_and_the_end_are_kept() -> None:
    text = escape.describe_error("the beginning " + "x" * 100_000 + " the end")
    assert len(text) < 5000
    assert text.startswith("the beginning")
    assert text.endswith("the end")
