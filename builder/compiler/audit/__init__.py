"""Is libmodel.so fit to travel: what an ELF file asks of the machine it lands on, against a policy."""

from builder.compiler.audit.audit_library import (
    AuditReport,
    audit_file,
    format_audit_json,
    format_audit_text,
    require_portable,
)
from builder.compiler.audit.elf_facts import ElfFacts
from builder.compiler.audit.policy import Violation

__all__ = [
    "AuditReport",
    "ElfFacts",
    "Violation",
    "audit_file",
    "format_audit_json",
    "format_audit_text",
    "require_portable",
]
