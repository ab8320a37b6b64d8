"""An AWS CDK construct in Python, whose one nested stack is template.yaml with the construct's arguments as parameters.

CloudFormation makes the resources, so that there is one description of them, whatever tool asks for it.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

from builder.infrastructure.facts import Facts, Parameter, snake_case

SOURCE = Path(__file__).with_name("construct.py.txt")
_WIDTH = 116


def cdk_construct(facts: Facts) -> dict[str, str]:
    """The files of the construct, by name: coldforge_cdk.py and the template that it reads."""
    parameters = sorted(facts.parameters, key=lambda one: one.name != "ModelName")
    values = {
        "ARGUMENTS": "\n".join(f"        {_argument(one)}," for one in parameters),
        "PARAMETERS": "\n".join(f'            "{one.name}": {_value(one)},' for one in facts.parameters),
        "DOCUMENTED": "\n".join(_documented(one) for one in parameters),
        "OUTPUTS": "\n".join(_output(name, says) for name, says in facts.outputs.items()),
    }
    source = re.sub(
        r"^@(\w+)@$", lambda found: values[found[1]], SOURCE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    template = json.dumps(facts.template, indent=1, default=str) + "\n"
    return {"coldforge_cdk.py": source, "coldforge.template.json": template}


def _argument(one: Parameter) -> str:
    if one.name == "ModelName":
        return "model_name: str"
    if one.several:
        return f"{one.snake}: Sequence[str] = {tuple(one.default.split(','))!r}"
    if one.number:
        return f"{one.snake}: float = {one.default}"
    return f"{one.snake}: str = {json.dumps(one.default)}"


def _value(one: Parameter) -> str:
    return f'",".join({one.snake})' if one.several else f"str({one.snake})" if one.number else one.snake


def _documented(one: Parameter) -> str:
    allowed = f" One of {', '.join(one.values)}." if one.values else ""
    text = f"``{one.snake}``: {one.description}{allowed}".replace("\\", "\\\\")
    return textwrap.fill(text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 10)


def _output(name: str, says: str) -> str:
    about = f'        """{says}."""\n' if says else ""
    return f'    @property\n    def {snake_case(name)}(self) -> str:\n{about}        return self._output("{name}")\n'
