"""The audit of libmodel.so: the requirements of an ELF file, compared with the policy of its target."""

from builder.compiler.audit.audit_library import (
    AuditReport,
    Violation,
    audit_file,
    format_audit_json,
    format_audit_text,
    require_portable,
)
from builder.compiler.audit.elf_facts import ElfFacts

__all__ = [
    "AuditReport",
    "ElfFacts",
    "Violation",
    "audit_file",
    "format_audit_json",
    "format_audit_text",
    "require_portable",
]
