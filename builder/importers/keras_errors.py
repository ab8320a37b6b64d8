"""Readable reasons from the errors that Keras raises when it cannot read a model."""

from __future__ import annotations

import re

from builder.base.escape import describe_error

_MISSING = (
    re.compile(r"Could not locate (?:class|function) '([^']+)'"),
    re.compile(r"Cannot deserialize object of type `([^`]+)`"),
    re.compile(r"Unknown [a-z]+(?: [a-z]+)*:? '\{.*'config': '([^']+)'"),
    re.compile(r"Unknown [a-z]+(?: [a-z]+)*: '?([\w.>/ -]+?)'?\."),
)
_FUNCTION = re.compile(r"'class_name': 'function', 'config': '(\w+)', 'registered_name': 'function'")
_UNSAFE = re.compile("unsafe|safe_mode|not a modeling function", re.IGNORECASE)


def clean_reason(error: Exception) -> str:
    """Return the innermost reason in one line, without escape codes and the dump of a configuration."""
    return describe_error(str(error).rpartition("Exception encountered: ")[2].partition("Full object config:")[0])


def is_unsafe(error: Exception) -> bool:
    """Return whether Keras refused to run code."""
    return _UNSAFE.search(clean_reason(error)) is not None


def find_missing_names(error: Exception) -> list[str]:
    """Find the full name of the class or function that Keras did not find, if that was the reason."""
    reason = clean_reason(error)
    names = [match[1] for pattern in _MISSING if (match := pattern.search(reason))][:1]
    if names == ["function"] and (named := _FUNCTION.search(str(error))):  # The name is only a function's class.
        return [named[1]]
    return names
