"""Every way a build can fail, one class and one exit code each.

A message names the thing at fault and the next step. ``builder.cli`` is the only place that
catches these: nothing below it prints or exits.
"""

from __future__ import annotations

INTERRUPTED = 130
"""What the process returns after Ctrl-C: 128 and the number of SIGINT, as shells have it."""

PIPE_CLOSED = 141
"""The same of SIGPIPE: whoever read the result stopped."""


class ColdforgeError(Exception):
    """Base of every failure a user can meet; ``exit_code`` is what the process returns."""

    exit_code = 1


class UsageError(ColdforgeError):
    """The command line asks for something that cannot be done."""

    exit_code = 2


class SpecError(ColdforgeError):
    """``model.toml`` is wrong; the message lists every mistake with its line."""

    exit_code = 10


class ImportModelError(ColdforgeError):
    """The trained model cannot be read, trusted or given a static shape."""

    exit_code = 11


class PreflightError(ColdforgeError):
    """XLA cannot compile some of the graph's ops; the message lists all of them."""

    exit_code = 12


class CompileError(ColdforgeError):
    """tfcompile refused a graph that passed the preflight."""

    exit_code = 13


class LowerError(ColdforgeError):
    """The compiled graph has an operation that the runtime cannot run."""

    exit_code = 14


class LinkError(ColdforgeError):
    """The C toolchain failed or could not be found."""

    exit_code = 15


class AuditError(ColdforgeError):
    """``libmodel.so`` breaks the portability policy."""

    exit_code = 16


class VerifyError(ColdforgeError):
    """``libmodel.so`` disagrees with TensorFlow beyond the tolerance."""

    exit_code = 17


class SizeLimitError(ColdforgeError):
    """The bundle is larger than Lambda, or the spec, allows."""

    exit_code = 18


class EnvironmentSetupError(ColdforgeError):
    """Something that the command needs (a package, an interpreter, a registry) is missing."""

    exit_code = 19


class PublishError(ColdforgeError):
    """AWS refused a layer version or a stack, or could not be reached."""

    exit_code = 20


class TemplateError(ColdforgeError):
    """The built template asks for things that Lambda does not allow; the message lists all of them."""

    exit_code = 21


class WeightsError(ColdforgeError):
    """A model that was trained again does not fit the library that was compiled before."""

    exit_code = 22


class SandboxError(ColdforgeError):
    """A model's code did something, or left something behind, that no import or compilation does."""

    exit_code = 23


class DiskError(ColdforgeError):
    """A disk is full or fails, a quota or limit is used up, or a folder may not be written."""

    exit_code = 24


class BundleError(ColdforgeError):
    """A bundle is not what its statement says, the signature is not that of the key, or a new build differs."""

    exit_code = 25


class AnswerError(ColdforgeError):
    """The function answered a request of `invoke` with an error."""

    exit_code = 26


class BatchError(ColdforgeError):
    """A batch cannot be planned, started, watched or collected; the message names what AWS or the list said."""

    exit_code = 27


def error_of(exit_code: object, message: str) -> ColdforgeError:
    """The error that a process which ended with ``exit_code``, or says so, stands for."""
    for kind in ColdforgeError.__subclasses__():
        if kind.exit_code == exit_code:
            return kind(message)
    return ColdforgeError(message)
