"""Run by the emulator's Python: what CloudFormation and IAM make of a template, without a server.

Reads one JSON object from standard input and writes the answer to standard output:

- ``{"stacks": {name: [template, parameters]}}``: for each name the resources that a stack has, by logical id, each with
  ``Type`` and resolved ``Properties``. A physical id is the logical one.
- ``{"decide": [{"policies", "boundary", "action", "resource", "context"}]}``: for each whether IAM allows it.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from typing import Any

ACCOUNT, REGION, STACK = "000000000000", "us-east-1", "stack"
STACK_ID = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/of-this-stack"


def made(template: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    from ministack.services.cloudformation import engine
    from samtranslator.translator.transform import transform

    class NoManagedPolicies:
        def load(self) -> dict[str, str]:
            return {}

    plain = transform(copy.deepcopy(template), dict(given), NoManagedPolicies())
    sent = [{"Key": name, "Value": value} for name, value in given.items()]
    parameters = engine._resolve_parameters(plain, sent)
    conditions = engine._evaluate_conditions(plain, parameters)
    engine._evaluate_rules(plain, parameters, conditions)
    there = {n: r for n, r in plain["Resources"].items() if conditions.get(r.get("Condition"), True)}
    known = {n: {"PhysicalResourceId": n, "Attributes": attributes(n, r)} for n, r in there.items()}
    mappings = plain.get("Mappings", {})

    def resolved(value: Any) -> Any:
        return engine._resolve_refs(value, known, parameters, conditions, mappings, STACK, STACK_ID)

    return {n: {**r, "Properties": resolved(r.get("Properties", {}))} for n, r in there.items()}


def attributes(name: str, resource: dict[str, Any]) -> dict[str, str]:
    """What Fn::GetAtt gives in this template."""
    service = resource["Type"].split("::")[1].lower()
    arn = f"arn:aws:{service}:{REGION}:{ACCOUNT}:{name}"
    if service == "logs":
        arn = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{STACK}/{name}:*"
    return {
        "Arn": arn,
        "QueueName": name,
        "Version": "1",
        "FunctionUrl": "https://url.example/",
        "RootResourceId": "root",
        "RegionalDomainName": "regional.example",
        "RegionalHostedZoneId": "ZREGIONAL",
    }


def allowed(request: dict[str, Any]) -> bool:
    from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

    context = EvalContext(
        principal_arn=f"arn:aws:sts::{ACCOUNT}:assumed-role/Role/function",
        principal_type="AssumedRole",
        principal_account=ACCOUNT,
        action=request["action"],
        resource_arn=request["resource"],
        region=REGION,
        source_ip="192.0.2.1",
        secure_transport=True,
        service_context={name.lower(): value for name, value in request.get("context", {}).items()},
    )
    limits = [[parse_policy_document(request["boundary"])]] if request.get("boundary") else []
    found = evaluate(context, [parse_policy_document(policy) for policy in request["policies"]], *limits)
    return str(found.decision) == "Allow"


def main() -> None:
    asked = json.load(sys.stdin)
    os.environ["AWS_DEFAULT_REGION"] = REGION
    if "decide" in asked:
        answer: Any = [allowed(request) for request in asked["decide"]]
    else:
        answer = {name: made(template, given) for name, (template, given) in asked["stacks"].items()}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
