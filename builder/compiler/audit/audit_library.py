"""The audit of a library: its facts, judged by the portability policy (``policy.json``) of its target."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from builder.base.errors import AuditError
from builder.base.targets import GLIBC_FLOOR, NAMES, TARGETS, Target
from builder.compiler.audit.elf_facts import ElfFacts, parse_version, read_facts


@dataclass(frozen=True)
class Policy:
    """The rules for a library for ``target``: what it may be, and what it may require."""

    target: str
    machine: str
    bits: int
    little_endian: bool
    glibc_floor: str
    glibc_floor_why: str
    needed: tuple[str, ...]
    stack_guard: str  # a further library that may be needed, but only for the stack protector's guard
    exports: tuple[str, ...]
    exports_of_outside_weights: tuple[str, ...]  # either all or none of these are exported too
    exports_of_several_signatures: tuple[str, ...]  # all or none
    exports_of_sound: tuple[str, ...]  # all or none
    require: tuple[str, ...]


@dataclass(frozen=True)
class Violation:
    """One broken rule, with the fact that breaks it and a remedy."""

    rule: str
    found: str
    remedy: str


@cache
def load_policy(target: Target) -> Policy:
    """Load the policy of ``target``. Raises AuditError for a target whose libraries are not ELF files."""
    elf = target.elf
    if elf is None:
        names = ", ".join(sorted(NAMES))
        raise AuditError(f"no audit policy for target {target.name!r}; there is one for {names}.")
    rules = json.loads(resources.files("builder.compiler.audit").joinpath("policy.json").read_text(encoding="utf-8"))
    unknown = set(rules["require"]) - set(_REQUIREMENTS)
    if unknown:
        raise AuditError(f"audit policy: unknown requirements {', '.join(sorted(unknown))}.")
    lists = {key: tuple(value) for key, value in rules.items() if isinstance(value, list)}
    rules |= lists
    return Policy(
        target.name, elf.machine, elf.bits, elf.little_endian, GLIBC_FLOOR, stack_guard=elf.stack_guard, **rules
    )


def find_target(path: Path) -> Target | None:
    """Find the target that the ELF file ``path`` is for; None for another machine, or if it is not an ELF file."""
    with path.open("rb") as stream:
        head = stream.read(20)  # e_ident, e_type, e_machine: the gABI's ELF header
    if not head.startswith(b"\x7fELF"):
        return None
    number = int.from_bytes(head[18:20], "little")
    return next((target for target in TARGETS if target.elf and target.elf.number == number), None)


def find_violations(facts: ElfFacts, policy: Policy) -> Iterator[Violation]:
    """Yield every rule that ``facts`` breaks, in a fixed order."""
    yield from _check_machine(facts, policy)
    yield from _check_glibc(facts, policy)
    yield from _check_needed(facts, policy)
    yield from _check_exports(facts, policy)
    for name in policy.require:
        fault, remedy = _REQUIREMENTS[name](facts), _REMEDIES[name]
        if fault:
            yield Violation(name, fault, remedy)


def _check_machine(facts: ElfFacts, policy: Policy) -> Iterator[Violation]:
    ours = (facts.machine, facts.bits, facts.little_endian)
    theirs = (policy.machine, policy.bits, policy.little_endian)
    if ours != theirs:
        yield Violation(
            "machine",
            f"built for {_format_machine(*ours)}, not for {_format_machine(*theirs)} ({policy.target})",
            f"build it with the toolchain's triple for {policy.target}",
        )


def _format_machine(machine: str, bits: int, little_endian: bool) -> str:
    return f"{machine.removeprefix('EM_')} {bits}-bit {'little' if little_endian else 'big'}-endian"


def _check_glibc(facts: ElfFacts, policy: Policy) -> Iterator[Violation]:
    for entry in facts.versions:
        library, _, version = entry.partition(":")
        number = re.fullmatch(r"GLIBC_([0-9]+(?:\.[0-9]+)*)", version)
        if number and parse_version(number[1]) <= parse_version(policy.glibc_floor):
            continue
        if not number and not version.startswith("GLIBC_"):
            continue  # This is another library's version, which the rule on DT_NEEDED covers.
        users = sorted({s.name for s in facts.undefined if (s.library, s.version) == (library, version)})
        purpose = f" for {', '.join(users)}" if users else ""
        yield Violation(
            "glibc",
            f"asks {library} for {version}{purpose}; {policy.glibc_floor_why} have glibc {policy.glibc_floor}",
            f"compile with the glibc floor in the target triple (…-linux-gnu.{policy.glibc_floor}) "
            "and avoid the newer functions",
        )


def _check_needed(facts: ElfFacts, policy: Policy) -> Iterator[Violation]:
    for library in facts.needed:
        if library in policy.needed:
            continue
        users = sorted({s.name for s in facts.undefined if s.library == library})
        if library == policy.stack_guard and users == ["__stack_chk_guard"]:
            continue
        purpose = f" (for {', '.join(users)})" if users else ""
        remedy = f"link it statically or do without; only {' and '.join(policy.needed)} are sure to be there"
        if library.startswith("ld-linux"):
            remedy = "thread-local variables pull in the dynamic loader: do without them"
        yield Violation("needed", f"needs {library}{purpose}", remedy)


def _check_exports(facts: ElfFacts, policy: Policy) -> Iterator[Violation]:
    wanted = set(policy.exports)
    optional_sets = policy.exports_of_outside_weights, policy.exports_of_several_signatures, policy.exports_of_sound
    for optional in optional_sets:
        wanted |= set(optional) if set(optional) & set(facts.exports) else set()
    extra = sorted(set(facts.exports) - wanted)
    missing = sorted(wanted - set(facts.exports))
    if extra:
        yield Violation(
            "exports",
            f"exports {_join_names(extra)}, which are not part of the ABI",
            "link with the version script that keeps everything else local",
        )
    if missing:
        yield Violation(
            "exports",
            f"does not export {_join_names(missing)}",
            'mark them visibility("default") and list them in the version script',
        )


def _join_names(names: list[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _describe_unresolved(facts: ElfFacts) -> str:
    names = [s.name for s in facts.undefined if not s.weak and not s.version]
    return f"uses {_join_names(names)}, which no needed library is known to have" if names else ""


# Each function returns what is wrong, or "" if nothing is.
_REQUIREMENTS: dict[str, Callable[[ElfFacts], str]] = {
    "shared_object": lambda f: "" if f.kind == "ET_DYN" else f"is {f.kind}, not a shared object",
    "nx_stack": lambda f: "" if f.nx_stack else "asks for an executable stack",
    "no_writable_code": lambda f: "has a segment that is writable and executable" if f.writable_code else "",
    "full_relro": lambda f: "" if f.relro == "full" else f"has {f.relro} RELRO, not full",
    "stays_loaded": lambda f: "" if f.stays_loaded else "can be unloaded while threads of its own run in it",
    "no_text_relocations": lambda f: "has text relocations" if f.text_relocations else "",
    "no_search_path": lambda f: f"has the search path {':'.join(f.search_path)}" if f.search_path else "",
    "resolved_symbols": _describe_unresolved,
}

_REMEDIES = {
    "shared_object": "link with -shared",
    "nx_stack": "link with -z noexecstack, and give assembly files a .note.GNU-stack section",
    "no_writable_code": "keep code and writable data in sections of their own",
    "full_relro": "link with -z relro -z now",
    "stays_loaded": "link with -z nodelete",
    "no_text_relocations": "compile everything with -fPIC",
    "no_search_path": "link without -rpath",
    "resolved_symbols": "link with -z defs, and give each symbol a definition",
}


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
