"""The numbers of the C ABI; ``runtime/abi/model.h`` is the reference."""

ABI_VERSION = 1

CF_OK, CF_ERR_ARGUMENT, CF_ERR_RANGE = 0, 3, 7
STATUS = {
    1: "CF_ERR_CPU",
    2: "CF_ERR_MEMORY",
    3: "CF_ERR_ARGUMENT",
    4: "CF_ERR_KERNEL",
    5: "CF_ERR_WEIGHTS",
    6: "CF_ERR_SIZE",
    7: "CF_ERR_RANGE",
    8: "CF_ERR_BUSY",
}


def status_name(status: int) -> str:
    """Return the C name of a cf_status."""
    return STATUS.get(status, f"the unknown status {status}")
