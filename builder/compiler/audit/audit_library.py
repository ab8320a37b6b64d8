"""The audit of a library: its facts, judged by its target's policy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builder.base.errors import AuditError
from builder.base.targets import Target
from builder.compiler.audit.elf_facts import ElfFacts, read_facts
from builder.compiler.audit.policy import Violation, find_violations, load_policy


@dataclass(frozen=True)
class AuditReport:
    """The facts of ``file``, and every rule that it breaks of the policy of the target named ``target``."""

    file: str
    target: str
    glibc_floor: str
    facts: ElfFacts
    violations: tuple[Violation, ...]

    @property
    def passed(self) -> bool:
        """True if no rule is broken."""
        return not self.violations

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return asdict(self) | {"passed": self.passed}


def audit_file(path: Path, target: Target) -> AuditReport:
    """Judge the shared library ``path`` for ``target``.

    Raises AuditError when the file is not a readable ELF shared object or the target has no policy.
    A broken rule raises nothing here: see ``require_portable``.
    """
    policy = load_policy(target)
    facts = read_facts(path)
    return AuditReport(path.name, target.name, policy.glibc_floor, facts, tuple(find_violations(facts, policy)))


def require_portable(report: AuditReport) -> None:
    """Raise AuditError with every violation and its remedy, if there are any."""
    if report.passed:
        return
    lines = [f"  {v.rule}: it {v.found}.\n    Remedy: {v.remedy}." for v in report.violations]
    raise AuditError(f"{report.file} is not portable to {report.target}:\n" + "\n".join(lines))


def format_audit_json(report: AuditReport) -> str:
    """Format the report as indented JSON."""
    return json.dumps(report.to_dict(), indent=2)


def format_audit_text(report: AuditReport) -> str:
    """Format the report for a person: one fact a line, then the verdict."""
    facts = report.facts
    rows = [
        ("machine", f"{facts.machine.removeprefix('EM_').lower()}, {facts.bits}-bit"),
        ("size", f"{facts.size:,} bytes{', stripped' if facts.stripped else ''}"),
        ("needed", ", ".join(facts.needed) or "nothing"),
        ("highest glibc", f"{facts.glibc or 'none'} (floor {report.glibc_floor})"),
        ("exports", ", ".join(facts.exports) or "nothing"),
        ("RELRO", facts.relro),
        ("after dlclose", "stays loaded" if facts.stays_loaded else "unloaded"),
        ("stack", "not executable" if facts.nx_stack else "executable"),
        ("text relocations", "yes" if facts.text_relocations else "none"),
        ("search path", ":".join(facts.search_path) or "none"),
        ("runs at load", "constructors" if facts.constructors else "nothing"),
    ]
    lines = [f"{report.file} for {report.target}", *(f"  {name:<18}{value}" for name, value in rows)]
    lines += [f"  VIOLATION {v.rule}: it {v.found}. Remedy: {v.remedy}." for v in report.violations]
    return "\n".join([*lines, "  passes" if report.passed else "  does not pass"])
