"""What a person reads of a bundle that was checked."""

from __future__ import annotations

from collections.abc import Iterator

from builder.deliver.bundle_check import Checked
from builder.escape import visible


def checked_lines(checked: Checked) -> Iterator[str]:
    """What was checked, and what was not."""
    predicate = checked.statement["predicate"]
    definition, builder = predicate["buildDefinition"], predicate["runDetails"]["builder"]
    yield f"{len(checked.subjects)} files are those that the statement names."
    yield f"built by {visible(builder['id'])} from {len(definition['resolvedDependencies'])} recorded inputs:"
    for entry in definition["resolvedDependencies"]:
        digest = next(iter(entry.get("digest", {}).items()), ("", entry.get("uri", "")))
        yield visible(f"  {entry['name']}  {':'.join(map(str, filter(None, digest)))}")
    for name in checked.beside:
        yield f"made later, NOT CHECKED: {visible(name)}"
    if checked.key:
        yield f"The signature is right: key {checked.key}"
    elif checked.signers:
        yield f"NOT CHECKED: it is signed by key {visible(', '.join(checked.signers))}; check that with --key."
    else:
        yield "It is not signed: this shows that nothing was changed by mistake, and not who built it."
