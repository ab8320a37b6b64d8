"""Which tests ``make test`` runs, and which tests one process runs one after the other.

``make test`` runs tests/unit, tests/handler, tests/native and the tests of real builds named in ``QUICK``. All others
are marked ``full``: ``make test-all`` runs them too. A new test of a real build is ``full`` until it is named here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

QUICK: dict[str, Sequence[str]] = {
    "test_activations": ("test_agrees_with_tensorflow_that_rounds_alike[dense_wide]",),
    "test_batches": ("test_what_does_not_scale",),
    "test_c_abi": ("test_a_c_program",),
    "test_explain": ("test_make_explain", "test_the_json_of_digits"),
    "test_export": ("test_coldforge_builds_what_it_exported",),
    "test_golden": ("test_",),
    "test_trusted_model": ("test_",),
    "test_hostile_models": ("test_",),
    "test_importers": ("test_",),
    "test_lambda_rie": ("test_",),
    "test_models_by_name": ("test_",),
    "test_pipeline": ("test_a_build_and_its_repeat", "test_init", "test_digits", "test_the_command", "test_a_build_in"),
    "test_readme": ("test_",),
    "test_selftest": ("test_the_command", "test_bad_options", "test_a_wrong_answer_fails_the_test[value"),
    "test_signatures": ("test_a_library_of_several_signatures[library]",),
    "test_sizes": ("test_a_library_for_texts",),
    "test_state": ("test_agrees_with_tensorflow[counter", "test_agrees_with_tensorflow[optimised-counter"),
    "test_tfcompile": ("test_objects_are", "test_a_refusal", "test_a_crash", "test_a_shape"),
    "test_threads": ("test_any_number", "test_a_fork", "test_one_thread"),
    "test_weight_types": ("test_a_bundle_of_a_trained_model[digits-int8]", "test_a_wrong_weight"),
    "test_weights": ("test_a_model_that_was_trained_again",),
    "test_zoo": (
        "test_is_refused",
        "test_agrees_with_tensorflow[conv2d_grouped_strided_dilated-",
        "test_agrees_with_tensorflow[lstm-",
        "test_agrees_with_tensorflow[mlp-",
        "test_agrees_with_tensorflow[sort_ties-",
        "test_agrees_with_tensorflow[cond_inside_while-",
        "test_agrees_with_tensorflow[top_k-",
        "test_agrees_with_tensorflow[wide_resnet-",
        "test_agrees_with_tensorflow[stateful_random-",
        "test_convolutions_run_as_layers[wide_resnet]",
    ),
}
"""Of tests/integration: the file, and how the names of its tests begin."""

FAST_ROOMS = ("tests/unit/", "tests/handler/", "tests/native/")

CHECKOUT = (
    "tests/e2e/",
    *(
        f"tests/integration/test_{name}.py"
        for name in (
            "bindings", "clients", "explain", "frames", "lambda_events", "lambda_rie", "large_models", "models_by_name",
            "publish", "readme", "selftest", "threads", "verify_layers", "wasm",
        )
    ),
)  # fmt: skip
"""Tests that build in this checkout: they share dist/, build/, the active layer and the engine."""

BUILDS_HERE = {"digits", "emotion", "languages"}
"""Fixtures that do."""


def is_full(nodeid: str, name: str) -> bool:
    """Whether only ``make test-all`` runs the test."""
    if nodeid.startswith(FAST_ROOMS):
        return False
    module = nodeid.partition("::")[0].rpartition("/")[2].removesuffix(".py")
    return not (nodeid.startswith("tests/integration/") and name.startswith(tuple(QUICK.get(module, ("\0",)))))


def group(item: pytest.Item) -> str:
    """The tests of one group run in one process, in their order."""
    file = item.nodeid.partition("::")[0]
    if file.startswith(CHECKOUT) or BUILDS_HERE & set(getattr(item, "fixturenames", ())):
        return "checkout"
    if file.endswith("/test_zoo.py"):  # one compiled graph for all tests of a case
        return "zoo " + _case(item)
    if "fuzz" in file:
        return "fuzz"
    return file


def _case(item: pytest.Item) -> str:
    values = getattr(item, "callspec").params if hasattr(item, "callspec") else {}  # noqa: B009
    case = values.get("case", values.get("name", "recurrent_wide"))
    return str(getattr(case, "name", case))


def order(name: str) -> int:
    """Where a group stands: the longest first, so that none is left alone at the end."""
    if name == "checkout":
        return 0
    return 1 if name.startswith(("sanitized", "tests/integration")) else 2 if name.startswith("zoo") else 3
