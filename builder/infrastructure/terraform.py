"""A Terraform module: main.tf.json, whose one stack is template.yaml with the module's variables as its parameters.

CloudFormation makes the resources, so that there is one description of them, whatever tool asks for it.
https://developer.hashicorp.com/terraform/language/syntax/json
"""

from __future__ import annotations

import json
from typing import Any

from builder.infrastructure.facts import Facts, Parameter, snake_case

STACK = "aws_cloudformation_stack"


def terraform_module(facts: Facts) -> str:
    """The text of main.tf.json."""
    own: dict[str, Any] = {
        "stack_name": {"type": "string", "description": "The stack's name. Two models are two stacks."},
        "template": {
            "type": "string",
            "description": "The file that `sam package` wrote: the template with its zips in S3.",
        },
        "bucket": {
            "type": "string",
            "description": "The S3 bucket that gets the template: at best that of `sam package`.",
        },
        "tags": {"type": "map(string)", "description": "Tags of every resource.", "default": {}},
    }
    module = {
        "//": "Made from template.yaml by `coldforge template terraform`.",
        "terraform": {
            "required_version": ">= 1.5",
            "required_providers": {"aws": {"source": "hashicorp/aws", "version": ">= 5.0"}},
        },
        "variable": own | {one.snake: _variable(one) for one in facts.parameters},
        "data": {"aws_s3_bucket": {"code": {"bucket": "${var.bucket}"}}},
        "resource": {
            "aws_s3_object": {
                "template": {
                    "bucket": "${var.bucket}",
                    # Another template is another object, which the stack then notices.
                    "key": "coldforge/${var.stack_name}/${filesha256(var.template)}.yaml",
                    "source": "${var.template}",
                }
            },
            STACK: {
                "model": {
                    "name": "${var.stack_name}",
                    "template_url": "https://${data.aws_s3_bucket.code.bucket_regional_domain_name}/${aws_s3_object.template.key}",
                    "capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
                    "parameters": {one.name: _value(one) for one in facts.parameters},
                    "tags": "${var.tags}",
                }
            },
        },
        "output": {
            snake_case(name): {
                "description": description,
                "value": f'${{lookup({STACK}.model.outputs, "{name}", null)}}',
            }
            for name, description in facts.outputs.items()
        },
    }
    return json.dumps(module, indent=2) + "\n"


def _variable(one: Parameter) -> dict[str, Any]:
    default: Any = one.default.split(",") if one.several else one.default
    if one.number:
        default = json.loads(one.default)
    kind = "number" if one.number else "list(string)" if one.several else "string"
    checks = [
        {"condition": f"${{{condition}}}", "error_message": f"{one.name} must {must}."}
        for condition, must in _conditions(one, f"var.{one.snake}")
    ]
    return {
        "type": kind,
        "description": _literal(one.description),
        "default": _literal(default),
        "nullable": False,
        **({"validation": checks} if checks else {}),
    }


def _conditions(one: Parameter, variable: str) -> list[tuple[str, str]]:
    found = []
    if one.values:
        text = f"tostring({variable})"
        found.append((f"contains({json.dumps(one.values)}, {text})", f"be one of {', '.join(one.values)}"))
    if one.pattern:
        found.append((f"can(regex({_quoted(f'^(?:{one.pattern})$')}, {variable}))", _literal(f"match {one.pattern}")))
    if one.least is not None:
        found.append((f"{variable} >= {one.least}", f"be {one.least} or more"))
    if one.most is not None:
        found.append((f"{variable} <= {one.most}", f"be {one.most} or less"))
    return found


def _value(one: Parameter) -> str:
    if one.several:
        return f'${{join(",", var.{one.snake})}}'
    return f"${{tostring(var.{one.snake})}}" if one.number else f"${{var.{one.snake}}}"


def _quoted(text: str) -> str:
    """``text`` as a string of HCL's expressions."""
    return json.dumps(_literal(text), ensure_ascii=False)


def _literal(value: Any) -> Any:
    """Text in which Terraform sees no template."""
    return value.replace("${", "$${").replace("%{", "%%{") if isinstance(value, str) else value
