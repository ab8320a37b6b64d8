"""Names that an attacker would give a tensor, a layer or an output: each ends, hides or runs something somewhere."""

from __future__ import annotations

ATTACK = "__attribute__((constructor)) void cf_attack(void) { __builtin_trap(); }"

NAMES = (
    f"*/ {ATTACK} /*",
    f"*/\n{ATTACK}\n/*",
    f"/*/ {ATTACK}",
    f'", 0}}; {ATTACK} //',
    "comment \\\nnext line",
    "trigraph ??/\nnext line ???/",
    "\u202e*/ right to left \u2066 \u200f",
    "\x1b]0;title\x07\x1b[2J\x9b31m \r\b\x7f",
    "nul \x00 after",
    "</script><script>alert(1)</script><!-- -->",
    "`touch executed` $(touch executed) ${IFS} ; touch executed & | > executed",
    "'; touch executed; '",
    '"""; import os; os.abort() #',
    "[link](javascript:alert(1)) | cell `code` <b>",
    '"]\n[[feeds]]\nname = "more',
    "\u2028\u2029\x85\x0b\x0c",
    "\U000e0001\U0001f600 \ud800",
    "ends in a backslash \\",
    "%s%n {0} {x} $x ${x} $$",
    "naïve 猫",
)
