"""A deployed stack's own description: its state machine, where it writes, and its function's size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from builder.base.errors import BatchError, UsageError
from builder.base.targets import DEFAULT
from builder.measure.prices import load_prices
from builder.release.batch.batch_plan import Capacity
from builder.release.batch.s3_location import S3Location, batch_errors


@dataclass(frozen=True)
class BatchStack:
    """A deployed stack: its state machine, the folder that it writes to, and its function."""

    machine: str
    results: S3Location
    function: Capacity

    def require_writable(self, place: S3Location) -> None:
        """Raise UsageError for a location that the function may not write to."""
        if place.bucket != self.results.bucket or not f"{place.key}/".startswith(self.results.key):
            raise UsageError(f"{place} is not below {self.results}, where this stack may write.")


def find_stack(stack: str, client: Callable[[str], Any]) -> BatchStack:
    """Ask AWS about ``stack``. ``client`` makes a client of the service that it is given. Raises BatchError."""
    with batch_errors(f"looking for the stack {stack}"):
        description = client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    outputs = {row["OutputKey"]: row["OutputValue"] for row in description.get("Outputs", [])}
    if "BatchMachineArn" not in outputs:
        raise BatchError(
            f"the stack {stack} has no state machine for batches: deploy it with the add-ons batch and results."
        )
    with batch_errors(f"asking for the function of {stack}"):
        about = client("lambda").get_function_configuration(FunctionName=outputs["FunctionName"])
    architecture = (about.get("Architectures") or [DEFAULT.architecture])[0]
    return BatchStack(
        outputs["BatchMachineArn"],
        S3Location.from_address(outputs["BatchResults"]),
        Capacity(int(about["MemorySize"]), int(about["Timeout"]), load_prices().gb_second[architecture]),
    )
