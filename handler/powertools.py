"""Powertools' Logger and metrics, without imports that they do not use here, which are half of their import time.

- The package's own ``__init__`` imports its Tracer, and botocore to sign requests to AWS; see ``announce_powertools``.
- The Logger's ``jmespath_utils`` would find a correlation id in an event: jmespath, gzip, typing_extensions, socket.
- ``inspect`` gives the names of one function's parameters; ``random`` is for sampled logs. Nothing here calls what
  uses ``base64`` and ``pathlib``, and no log lines are kept in a buffer.
- ``typing`` is for type checkers: see ``typed``.

With ``POWERTOOLS_DEBUG`` the package is imported whole, and logs its steps. A release of it that cannot be imported in
part is imported whole, too, which takes 20 ms more.
"""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

from .deferred_import import defer_imports
from .typed import STAND_INS, Any


def _list_parameters(made: type) -> SimpleNamespace:
    """Return what Powertools' formatter reads of ``inspect.getfullargspec``, for a class with its own ``__init__``."""
    code: Any = made.__init__.__code__  # type: ignore[misc]
    return SimpleNamespace(args=list(code.co_varnames[: code.co_argcount]))


_UNUSED: dict[str, dict[str, Any]] = {
    "aws_lambda_powertools.logging.buffer": {},
    "aws_lambda_powertools.logging.buffer.cache": {},
    "aws_lambda_powertools.logging.buffer.functions": {},
    "aws_lambda_powertools.logging.lambda_context": {},
    "aws_lambda_powertools.utilities.jmespath_utils": {},
    "inspect": {"getfullargspec": _list_parameters},
    "base64": {},
    "pathlib": {},
    "random": {},
}

try:
    if os.environ.get("POWERTOOLS_DEBUG"):
        raise ImportError("all of it is wanted")
    with defer_imports(_UNUSED | {"typing": STAND_INS}, package="aws_lambda_powertools"):
        from aws_lambda_powertools.logging import Logger as Logger
        from aws_lambda_powertools.metrics import EphemeralMetrics as EphemeralMetrics
        from aws_lambda_powertools.package_logger import set_package_logger_handler
    set_package_logger_handler()  # type: ignore[no-untyped-call]
except Exception:  # another release may use deferred modules at once: whatever it raises, it is then imported whole
    for name in [name for name in sys.modules if name.partition(".")[0] == "aws_lambda_powertools"]:
        del sys.modules[name]
    from aws_lambda_powertools import Logger as Logger
    from aws_lambda_powertools.metrics import EphemeralMetrics as EphemeralMetrics


def announce_powertools() -> None:
    """Have boto3's clients name Powertools in their requests, as they do when all of it is imported."""
    import aws_lambda_powertools  # noqa: F401
