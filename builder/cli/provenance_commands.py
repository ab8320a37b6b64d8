"""Commands that show where a bundle came from: sign, verify-bundle, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from builder.base.errors import BundleError
from builder.base.project import Project
from builder.cli.command import (
    MODEL,
    Options,
    argument,
    command,
    load_named_spec,
    print_result,
    progress_of,
    shorten_path,
)

if TYPE_CHECKING:
    from builder.release.compare_bundles import BundleComparison


BUNDLE = argument("bundle", type=Path, help="a bundle's folder, such as dist/emotion")


@command(
    "sign",
    "dist/emotion --key private.pem",
    BUNDLE,
    argument("--key", type=Path, required=True, metavar="PEM", help="private ed25519 key"),
)
def run_sign(options: Options, _project: Project) -> None:
    """Sign a bundle's statement of how it was built."""
    from builder.release.bundle_check import sign_bundle

    envelope = sign_bundle(options.bundle, options.key)
    print_result(options, {"file": envelope.resolve()}, f"signed: {shorten_path(envelope)}")


@command(
    "verify-bundle",
    "dist/emotion --key public.pem",
    BUNDLE,
    argument("--key", type=Path, metavar="PEM", help="public ed25519 key of the signer"),
    argument("--model", metavar="NAME", help="the model that the bundle must be of"),
    argument("--version", help="the version of the model that the bundle must be of"),
    argument("--strict", action="store_true", help="refuse files and signatures that are not checked"),
)
def run_verify_bundle(options: Options, _project: Project) -> None:
    """Check a bundle's files against its statement and signature."""
    from builder.cli.summaries import format_checks
    from builder.release.bundle_check import check_bundle, require_all_checked, require_model

    checked = check_bundle(options.bundle, options.key)
    require_model(checked, options.model, options.version)
    if options.strict:
        require_all_checked(checked)
    print_result(options, checked.to_dict(), "\n".join(format_checks(checked)))


@command("reproduce", "dist/emotion", BUNDLE, argument("--model", help=f"{MODEL}, if it is not the recorded one"))
def run_reproduce(options: Options, project: Project) -> None:
    """Build a bundle again from its recorded inputs and compare."""
    from builder.cli.summaries import format_comparison
    from builder.release.reproduce import reproduce_bundle

    spec = load_named_spec(options.model, project) if options.model else None
    comparison = reproduce_bundle(options.bundle, project, progress_of(options), spec)
    print_result(options, comparison.to_dict(), "\n".join(format_comparison(comparison)))
    require_identical(comparison)


def require_identical(comparison: BundleComparison) -> None:
    """Raise BundleError when a file differs."""
    if not comparison.identical:
        cause = (
            "Bring back the inputs that are another now, and try again."
            if comparison.inputs
            else "No recorded input is another now, so the build is at fault: please report it (SECURITY.md)."
        )
        count = len(comparison.differing)
        raise BundleError(f"{count} of {comparison.files} files differ from those that were built. {cause}")


COMMANDS = (
    run_sign,
    run_verify_bundle,
    run_reproduce,
)
