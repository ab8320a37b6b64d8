"""Every way a build can fail, one class and one exit code each.

A message names the thing at fault and the next step. ``builder.cli`` is the only place that
catches these: nothing below it prints or exits.
"""

from __future__ import annotations

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""

PIPE_CLOSED = 141
"""The exit code after SIGPIPE, if the reader of the result stopped."""


class ColdforgeError(Exception):
    """Base of every failure a user can meet; ``exit_code`` is what the process returns."""

    exit_code = 1

    def __init_subclass__(cls, exit_code: int = 0) -> None:
        cls.exit_code = exit_code or cls.exit_code


class UsageError(ColdforgeError, exit_code=2):
    """The command line asks for something that cannot be done."""


class SpecError(ColdforgeError, exit_code=10):
    """``model.toml`` is wrong; the message lists every mistake with its line."""


class ImportModelError(ColdforgeError, exit_code=11):
    """The trained model cannot be read, trusted or given a static shape."""


class PreflightError(ColdforgeError, exit_code=12):
    """XLA cannot compile some of the graph's ops; the message lists all of them."""


class CompileError(ColdforgeError, exit_code=13):
    """tfcompile refused a graph that passed the preflight."""


class LowerError(ColdforgeError, exit_code=14):
    """The compiled graph has an operation that the runtime cannot run."""


class LinkError(ColdforgeError, exit_code=15):
    """The C toolchain failed or could not be found."""


class AuditError(ColdforgeError, exit_code=16):
    """``libmodel.so`` breaks the portability policy."""


class VerifyError(ColdforgeError, exit_code=17):
    """``libmodel.so`` disagrees with TensorFlow beyond the tolerance."""


class SizeLimitError(ColdforgeError, exit_code=18):
    """The bundle is larger than Lambda, or the spec, allows."""


class EnvironmentSetupError(ColdforgeError, exit_code=19):
    """Something that the command needs (a package, an interpreter, a registry) is missing."""


class PublishError(ColdforgeError, exit_code=20):
    """AWS refused a layer version or a stack, or could not be reached."""


class TemplateError(ColdforgeError, exit_code=21):
    """The built template asks for things that Lambda does not allow; the message lists all of them."""


class WeightsError(ColdforgeError, exit_code=22):
    """A model that was trained again does not fit the library that was compiled before."""


class SandboxError(ColdforgeError, exit_code=23):
    """A model's code did something, or left something behind, that no import or compilation does."""


class DiskError(ColdforgeError, exit_code=24):
    """A disk is full or fails, a quota or limit is used up, or a folder may not be written."""


class BundleError(ColdforgeError, exit_code=25):
    """A bundle is not what its statement says, the signature is not that of the key, or a new build differs."""


class AnswerError(ColdforgeError, exit_code=26):
    """The function answered a request of `invoke` with an error."""


class BatchError(ColdforgeError, exit_code=27):
    """A batch cannot be planned, started, watched or collected; the message names what AWS or the list said."""


def error_of(exit_code: object, message: str) -> ColdforgeError:
    """Return the error for a process that ended with, or reported, ``exit_code``."""
    for kind in ColdforgeError.__subclasses__():
        if kind.exit_code == exit_code:
            return kind(message)
    return ColdforgeError(message)
