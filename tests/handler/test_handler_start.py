"""What the function does before its first request: which modules it loads, by name, and what it leaves behind.

A module more is a part of a millisecond more for every cold start. It may be right: then it belongs into these lists.
"""

from __future__ import annotations

import ast
import base64
import inspect
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.logging.formatter import RESERVED_FORMATTER_CUSTOM_KEYS, LambdaPowertoolsFormatter
from PIL import Image

from handler.powertools import _list_parameters
from tests.conftest import ROOT
from tests.support import abi_library, measured

FUNCTION = {
    "_abi", "answer", "app", "budget", "crop", "deadline", "deferred_import", "description", "errors", "events",
    "events.gateways", "http", "image", "image_header", "inputs", "inputs.image", "model", "named_tuples", "options",
    "powertools", "processes", "protocols", "protocols.predict", "request", "resize", "server", "sources", "telemetry",
    "tensors", "typed",
}  # fmt: skip
POWERTOOLS = {
    "logging", "logging.constants", "logging.exceptions", "logging.filters", "logging.formatter", "logging.logger",
    "metrics", "metrics.base", "metrics.exceptions", "metrics.functions", "metrics.metrics", "metrics.provider",
    "metrics.provider.base", "metrics.provider.cloudwatch_emf", "metrics.provider.cloudwatch_emf.cloudwatch",
    "metrics.provider.cloudwatch_emf.constants", "metrics.provider.cloudwatch_emf.exceptions",
    "metrics.provider.cloudwatch_emf.metric_properties", "metrics.provider.cold_start", "package_logger", "shared",
    "shared.constants", "shared.functions", "utilities", "warnings",
}  # fmt: skip
PILLOW = {
    "Image", "ImageFile", "ImageMode", "JpegImagePlugin", "JpegPresets", "_binary", "_deprecate", "_imaging", "_util",
    "_version",
}  # fmt: skip
STANDARD = {
    "__future__", "_cffi_backend", "array", "binascii", "contextvars", "datetime", "gc", "importlib.machinery", "math",
    "struct",
}  # fmt: skip
"""What else, of the standard library and of cffi, that Lambda's runtime client has not imported already."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return abi_library.build(tmp_path_factory.mktemp("start"), abi_library.picture_description(batch=2))


def started(library: Path, code: str, *, first: str = "", **more: str) -> Any:
    """What ``code`` prints last, as JSON, after ``first`` and ``import handler.app`` in a process of its own."""
    environment = {"PATH": os.environ["PATH"], "COLDFORGE_LIBRARY": str(library), "PYTHONPATH": str(ROOT)}
    environment |= {"AWS_LAMBDA_FUNCTION_NAME": "f", **measured.environment(), **more}
    # What the runtime client imports (awslambdaric.bootstrap).
    client = "import sys, json, logging, time, traceback, decimal, importlib"
    command = [sys.executable, "-c", f"{client}\n{first}\nbefore = set(sys.modules)\nimport handler.app\n{code}"]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def loaded(library: Path, **more: str) -> set[str]:
    return set(started(library, "print(json.dumps(sorted(set(sys.modules) - before)))", **more))


def below(names: set[str], package: str) -> set[str]:
    return {name.removeprefix(f"{package}.") for name in names if name.startswith(f"{package}.")}


def others(names: set[str]) -> set[str]:
    """Without what a module of the standard library keeps to itself, which differs from version to version."""
    mine = {name for name in names if name.partition(".")[0] not in ("handler", "aws_lambda_powertools", "PIL")}
    return {name for name in mine if name in STANDARD or not name.startswith(("_", "typing."))}


def test_only_these_modules_load(library: Path) -> None:
    names = loaded(library)
    assert below(names, "handler") == FUNCTION
    assert below(names, "aws_lambda_powertools") == POWERTOOLS
    assert below(names, "PIL") == PILLOW
    assert others(names) <= STANDARD


def test_a_model_without_images_loads_no_pillow(tmp_path: Path) -> None:
    names = loaded(abi_library.build(tmp_path, abi_library.tensor_description()))
    assert below(names, "PIL") == set()
    assert below(names, "handler") == FUNCTION - {"crop", "image", "image_header", "inputs.image", "resize"}
    assert others(names) <= STANDARD


def test_a_model_of_a_table_loads_its_module_alone(tmp_path: Path) -> None:
    names = loaded(abi_library.build(tmp_path, abi_library.table_description()))
    pictures = {"crop", "image", "image_header", "inputs.image", "resize"}
    assert below(names, "handler") == FUNCTION - pictures | {"inputs.table"}
    assert others(names) <= STANDARD


CONTEXT = """
from types import SimpleNamespace
context = SimpleNamespace(function_name="f", memory_limit_in_mb="128", invoked_function_arn="arn",
                          aws_request_id="request-1", get_remaining_time_in_millis=lambda: 15_000)
face = {"image": open(FACE).read()}
url = {"version": "2.0", "rawPath": "/predict", "requestContext": {"http": {"method": "POST"}}, "headers": {},
       "body": json.dumps(face)}
"""


def requests(tmp_path: Path) -> str:
    text = tmp_path / "face"
    text.write_bytes(base64.b64encode((ROOT / "tests/data/face.jpg").read_bytes()))
    return CONTEXT.replace("FACE", repr(str(text)))


@pytest.mark.parametrize("event", ["face", "url"])
def test_the_first_request_of_the_usual_kinds_loads_nothing_more(library: Path, tmp_path: Path, event: str) -> None:
    code = f"""{requests(tmp_path)}
before = set(sys.modules)
answer = handler.app.lambda_handler({event}, context)
print(json.dumps([answer.get("statusCode", 200), "error" in answer, sorted(set(sys.modules) - before)]))"""
    assert started(library, code) == [200, False, []]


@pytest.mark.parametrize("start", ["on-demand", "provisioned-concurrency"])
@pytest.mark.parametrize(
    ("form", "mode"),
    [
        ("JPEG", "L"),
        ("JPEG", "CMYK"),
        ("PNG", "RGB"),
        ("PNG", "P"),
        ("PNG", "I;16"),
        ("GIF", "P"),
        ("WEBP", "RGBA"),
        ("BMP", "P"),
    ],
)
def test_every_format_is_decoded_by_what_was_loaded_for_it(library: Path, form: str, mode: str, start: str) -> None:
    """In a process that has imported nothing of Pillow before, as this one has."""
    exif = Image.Exif()
    exif[0x112] = 6
    file = io.BytesIO()
    Image.new(mode, (9, 7)).save(file, form, **({"exif": exif} if form in ("JPEG", "PNG", "WEBP") else {}))
    event = {"image": base64.b64encode(file.getvalue()).decode()}
    context = CONTEXT.partition("face")[0]
    code = f"{context}\nanswer = handler.app.lambda_handler({event!r}, context)\nprint(json.dumps(answer))"
    answer = started(library, code, AWS_LAMBDA_INITIALIZATION_TYPE=start)
    assert "predictions" in answer, answer


def test_nothing_is_compiled(library: Path) -> None:
    """Modules without bytecode are, once; annotations and constructors would be at each start."""
    hook = """
seen = []
sys.addaudithook(lambda name, given: seen.append(str(given[0])) if name == "compile" and given[1] == "<string>" else 0)
"""
    assert started(library, "print(json.dumps(seen))", first=hook) == []
    assert started(library, "compile('1', '<string>', 'eval'); print(json.dumps(seen))", first=hook) == ["b'1'"]


def test_nothing_stands_in_for_a_module_afterwards(library: Path) -> None:
    names = ["inspect", "pathlib", "random", "base64", "subprocess", "PIL.ExifTags", "PIL.TiffTags"]
    names += ["aws_lambda_powertools", "aws_lambda_powertools.utilities.jmespath_utils"]
    code = f"""
import importlib, types, typing
found = [importlib.import_module(name) for name in {names}]
print(json.dumps([[type(m) is types.ModuleType, m.__spec__ is not None] for m in found]
                 + [[typing.NamedTuple.__module__ == "typing", found[0].getfullargspec.__module__ == "inspect"]]
                 + [[typing.Protocol.__module__ == "typing", typing.Any is not object]]))"""
    assert started(library, code) == [[True, True]] * (len(names) + 2)


def test_typing_stays_as_it_is_where_it_was_there_before(library: Path) -> None:
    """Whatever is imported meanwhile may use more of it than Powertools and Pillow do."""
    first = """
import importlib.abc, typing
class Seen(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        names.append([name, typing.Protocol.__module__, typing.Any is not object, typing.TYPE_CHECKING])
names = []
sys.meta_path.insert(0, Seen())
"""
    seen = started(library, "print(json.dumps(names))", first=first)
    assert {"PIL.Image", "aws_lambda_powertools.logging.logger"} <= {name for name, *_ in seen}
    assert {tuple(rest) for _, *rest in seen} == {("typing", True, False)}


def test_no_module_imports_typing_when_it_runs() -> None:
    """A protocol's or an event's, too: the first request that needs it would wait 2 to 4 ms more."""
    for path in (ROOT / "handler").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert "typing" not in names, path


def test_what_was_left_out_is_there_for_whoever_uses_it(library: Path) -> None:
    code = """
import io
from PIL import Image, JpegImagePlugin
from handler.telemetry import logger
exif = Image.Exif()
exif[0x112] = 6
file = io.BytesIO()
Image.new("RGB", (8, 4)).save(file, "JPEG", exif=exif)
@logger.inject_lambda_context(correlation_id_path="detail.id")
def logged(event, context):
    return logger.get_correlation_id()
print(json.dumps([Image.open(file).getexif()[0x112], JpegImagePlugin.subprocess.DEVNULL,
    logged({"detail": {"id": "7"}}, __import__("types").SimpleNamespace(function_name="f", memory_limit_in_mb=1,
        invoked_function_arn="a", aws_request_id="r"))]))"""
    assert started(library, code) == [6, -3, "7"]


@pytest.mark.parametrize(("rate", "level"), [("0", 20), ("1", 10)])
def test_logs_that_are_sampled_are_detailed(library: Path, rate: str, level: int) -> None:
    code = "print(json.dumps(handler.telemetry.logger.log_level))"
    assert started(library, code, POWERTOOLS_LOGGER_SAMPLE_RATE=rate) == level


def test_the_collector_runs_again_and_leaves_out_what_was_imported(library: Path) -> None:
    enabled, frozen = started(library, "import gc; print(json.dumps([gc.isenabled(), gc.get_freeze_count()]))")
    assert enabled
    assert frozen > 10_000


def test_powertools_as_it_is_where_it_is_to_say_what_it_does(library: Path) -> None:
    names = loaded(library, POWERTOOLS_DEBUG="1")
    assert below(names, "aws_lambda_powertools") > POWERTOOLS | {"tracing", "shared.user_agent"}


def test_a_release_of_powertools_that_does_more_is_imported_as_it_is(library: Path, tmp_path: Path) -> None:
    code = f"""{requests(tmp_path)}
answer = handler.app.lambda_handler(face, context)
print(json.dumps(["predictions" in answer, "aws_lambda_powertools.tracing" in sys.modules]))"""
    first = "import handler.typed; handler.typed.STAND_INS['TypeVar'] = None"
    assert started(library, code, first=first) == [True, True]


def test_the_parameters_of_the_formatter_are_those_that_inspect_finds() -> None:
    assert _list_parameters(LambdaPowertoolsFormatter).args == inspect.getfullargspec(LambdaPowertoolsFormatter).args
    assert inspect.getfullargspec(LambdaPowertoolsFormatter).args[1:] == RESERVED_FORMATTER_CUSTOM_KEYS


def test_boto3_is_signed_where_it_is_used(library: Path) -> None:
    code = """
from handler.powertools import announce_powertools
announce_powertools()
import botocore
print(json.dumps([one.__module__ for one in botocore._INITIALIZERS]))"""
    assert started(library, code) == ["aws_lambda_powertools.shared.user_agent"]
