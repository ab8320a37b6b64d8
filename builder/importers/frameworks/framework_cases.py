"""The files of golden inputs that a framework's process answers, and of its answers.

``ASKED`` has the inputs of every case, ``ANSWERED`` the answers, both under ``<case>/<number>``.
"""

from __future__ import annotations

ASKED, ANSWERED = "asked.npz", "answered.npz"


def make_case_key(case: str, number: int) -> str:
    """Return the name of array ``number`` of a case in either file."""
    return f"{case}/{number}"


def read_case_name(key: str) -> str:
    """Return the case whose array ``key`` names."""
    return key.rpartition("/")[0]
