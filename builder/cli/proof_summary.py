"""Text for a person about a bundle that was checked, or built again."""

from __future__ import annotations

from collections.abc import Iterator

from builder.base.errors import BundleError
from builder.base.escape import escape_invisible
from builder.release.bundle_check import CheckedBundle
from builder.release.compare_bundles import BundleComparison


def format_checks(checked: CheckedBundle) -> Iterator[str]:
    """Yield the parts that were checked, and those that were not."""
    predicate = checked.statement["predicate"]
    definition, builder = predicate["buildDefinition"], predicate["runDetails"]["builder"]
    yield f"{checked.name} {checked.version}"
    yield f"{len(checked.subjects)} files are those that the statement names."
    yield f"built by {escape_invisible(builder['id'])} from {len(definition['resolvedDependencies'])} recorded inputs:"
    for entry in definition["resolvedDependencies"]:
        digest = next(iter(entry.get("digest", {}).items()), ("", entry.get("uri", "")))
        yield escape_invisible(f"  {entry['name']}  {':'.join(map(str, filter(None, digest)))}")
    for name in checked.beside:
        yield f"made later, NOT CHECKED: {escape_invisible(name)}"
    if checked.key:
        yield f"The signature is right: key {checked.key}"
    elif checked.signers:
        yield f"NOT CHECKED: it is signed by key {escape_invisible(', '.join(checked.signers))}; check that with --key."
    else:
        yield "It is not signed: this shows that nothing was changed by mistake, and not who built it."


def format_comparison(done: BundleComparison) -> Iterator[str]:
    """Yield the differences, and the recorded inputs that changed."""
    for name, where in done.differing.items():
        yield escape_invisible(f"differs: {name}, first in {where}")
    for name, where in done.measured.items():
        yield escape_invisible(f"measured anew: {name}, first in {where}")
    for line in done.inputs:
        yield escape_invisible(f"another input: {line}")
    if done.identical:
        yield f"identical: {done.files} files"


def require_identical(done: BundleComparison) -> None:
    """Raise BundleError when a file differs."""
    if not done.identical:
        cause = (
            "Bring back the inputs that are another now, and try again."
            if done.inputs
            else "No recorded input is another now, so the build is at fault: please report it (SECURITY.md)."
        )
        raise BundleError(f"{len(done.differing)} of {done.files} files differ from those that were built. {cause}")
