"""Is libmodel.so fit to travel: what an ELF file asks of the machine it lands on, against a policy."""

from builder.audit.elf import AuditReport, audit, render_json, render_text, require
from builder.audit.facts import ElfFacts
from builder.audit.policy import Violation

__all__ = ["AuditReport", "ElfFacts", "Violation", "audit", "render_json", "render_text", "require"]
