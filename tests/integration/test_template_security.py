"""What a security team asks of the template: what the function may do, and what each add-on brings.

SAM's own transform and the emulator's CloudFormation resolve the template, once for all sets of parameters; the
emulator's IAM decides.
"""

from __future__ import annotations

import http.client
import io
import json
import time
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from builder.release.compose import addon_names
from handler.map_batch import LAST_ATTEMPT
from tests.support.aws import LocalAws, client_environment, local_aws
from tests.support.stacks import (
    AWS,
    CODE,
    EVERYTHING,
    REQUIRED,
    Stack,
    allowed,
    filled,
    packaged,
    policies,
    stacks,
)

pytestmark = pytest.mark.integration

KEY = f"arn:aws:kms:{AWS}:key/of-the-team"
BOUNDARY = "arn:aws:iam::000000000000:policy/boundary"
QUEUE, SIGNING, ACCESS_POINT = REQUIRED["QueueArn"], REQUIRED["CodeSigningConfigArn"], REQUIRED["FileSystem"]
ORIGIN = "https://a.example"

ALL = {
    "ApiBurstLimit": "20",
    "ApiRateLimit": "10",
    "BatchSources": "archive/",
    "CorsOrigins": f"{ORIGIN},https://b.example",
    "DailyQuota": "1000",
    "ExistingQueueMaximumConcurrency": "4",
    "GradualDeployment": "Canary10Percent5Minutes",
    "HostedZoneId": "Z1",
    "KmsKeyArn": KEY,
    "PermissionsBoundaryArn": BOUNDARY,
    "QueueLateSeconds": "60",
    "QueueMaximumConcurrency": "4",
    "ReservedConcurrency": "5",
    "RestBurstLimit": "20",
    "RestRateLimit": "10",
}
READS = {"S3Sources": "shop/photos/,archive/"}
SETS: dict[str, tuple[list[str], dict[str, str]]] = {
    "core": ([], {}),
    "access-log": (["access-log", "http-api"], {}),
    "api-keys": (["api-keys", "rest-api"], {}),
    "batch": (["batch", "results"], {"BatchSources": READS["S3Sources"]}),
    "bucket": (["bucket", "queue"], {"SourcePrefix": "in/"}),
    "canary": (["canary"], {}),
    "code-signing": (["code-signing"], {}),
    "domain": (["domain", "http-api"], {}),
    "existing-queue": (["existing-queue"], {}),
    "failures": (["failures"], {}),
    "fifo": (["fifo", "queue"], {}),
    "file-system": (["file-system"], {}),
    "http-api": (["http-api"], {"CorsOrigins": f"{ORIGIN},https://b.example"}),
    "kept-logs": (["kept-logs"], {}),
    "observability": (["observability"], {}),
    "opentelemetry": (["opentelemetry"], {"OtelEndpoint": "https://collector.example:4318"}),
    "provisioned": (["provisioned"], {}),
    "queue": (["queue"], {}),
    "rest-api": (["rest-api"], {}),
    "results": (["results"], {}),
    "snapstart": (["snapstart"], {}),
    "sources": (["sources"], READS),
    "tokens": (["tokens", "http-api"], {}),
    "tracing": (["tracing"], {}),
    "waf": (["waf", "rest-api"], {}),
    "weights": (["weights"], {}),
    "two queues": (["fifo", "queue", "existing-queue"], {}),
    "no sources": (["sources", "batch", "results"], {}),
    "folder": (["weights"], {"Weights": "s3://models/emotion/"}),
    "key": ([], {"KmsKeyArn": KEY}),
    "failures with a key": (["failures"], {"KmsKeyArn": KEY}),
    "everything": (EVERYTHING, ALL),
}
"""Sets of add-ons and parameters. The first are the core and each add-on, by its name."""

LOG = f"arn:aws:logs:{AWS}:log-group:stack/LogGroup"
FUNCTION = f"arn:aws:lambda:{AWS}:Function"
OWN_CODE = {"lambda:SourceFunctionArn": f"arn:aws:lambda:{AWS}:function:stack-Function-1"}

ATTEMPTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "write its log": ("logs:PutLogEvents", f"{LOG}:log-stream:1", {}),
    "write another log": ("logs:PutLogEvents", f"arn:aws:logs:{AWS}:log-group:/aws/lambda/other:log-stream:1", {}),
    "read its log": ("logs:GetLogEvents", f"{LOG}:log-stream:1", {}),
    "make a log": ("logs:CreateLogGroup", f"arn:aws:logs:{AWS}:log-group:new", {}),
    "delete its log": ("logs:DeleteLogGroup", LOG, {}),
    "send a trace": ("xray:PutTraceSegments", "*", {}),
    "read traces": ("xray:GetTraceSummaries", "*", {}),
    "read a source": ("s3:GetObject", "arn:aws:s3:::shop/photos/1.jpg", {}),
    "read a whole source": ("s3:GetObject", "arn:aws:s3:::archive/1.jpg", {}),
    "read beside a source": ("s3:GetObject", "arn:aws:s3:::shop/customers.csv", {}),
    "read another bucket like a source": ("s3:GetObject", "arn:aws:s3:::archive-of-others/1.jpg", {}),
    "list a source": ("s3:ListBucket", "arn:aws:s3:::shop", {}),
    "write a source": ("s3:PutObject", "arn:aws:s3:::shop/photos/1.jpg", {}),
    "read the weights": ("s3:GetObject", "arn:aws:s3:::models/emotion.weights", {}),
    "read an object named like the weights": ("s3:GetObject", "arn:aws:s3:::models/emotion.weights.secret", {}),
    "read the folder's weights": ("s3:GetObject", "arn:aws:s3:::models/emotion/emotion.weights", {}),
    "read what else the folder has": ("s3:GetObject", "arn:aws:s3:::models/emotion/training.csv", {}),
    "write the weights": ("s3:PutObject", "arn:aws:s3:::models/emotion.weights", {}),
    "read a picture": ("s3:GetObject", "arn:aws:s3:::inbox/in/1.jpg", {}),
    "read beside the pictures": ("s3:GetObject", "arn:aws:s3:::inbox/out/1.jpg", {}),
    "delete a picture": ("s3:DeleteObject", "arn:aws:s3:::inbox/in/1.jpg", {}),
    "write a result": ("s3:PutObject", "arn:aws:s3:::answers/coldforge/1.json", {}),
    "write beside the results": ("s3:PutObject", "arn:aws:s3:::answers/other/1.json", {}),
    "read a result": ("s3:GetObject", "arn:aws:s3:::answers/coldforge/1.json", {}),
    "delete a result": ("s3:DeleteObject", "arn:aws:s3:::answers/coldforge/1.json", {}),
    "publish a result": ("s3:PutObjectAcl", "arn:aws:s3:::answers/coldforge/1.json", {}),
    "take a message": ("sqs:ReceiveMessage", QUEUE, {}),
    "send a message": ("sqs:SendMessage", QUEUE, {}),
    "take a message of its own queue": ("sqs:ReceiveMessage", f"arn:aws:sqs:{AWS}:InputQueue", {}),
    "send a message to its own queue": ("sqs:SendMessage", f"arn:aws:sqs:{AWS}:InputQueue", {}),
    "take a dead letter": ("sqs:ReceiveMessage", f"arn:aws:sqs:{AWS}:DeadLetterQueue", {}),
    "take another queue's message": ("sqs:ReceiveMessage", f"{QUEUE}-of-others", {}),
    "keep a failure": ("sqs:SendMessage", f"arn:aws:sqs:{AWS}:FailureQueue", {}),
    "take a failure": ("sqs:ReceiveMessage", f"arn:aws:sqs:{AWS}:FailureQueue", {}),
    "encrypt a failure": ("kms:GenerateDataKey", KEY, {"kms:ViaService": "sqs.us-east-1.amazonaws.com"}),
    "decrypt a message": ("kms:Decrypt", KEY, {"kms:ViaService": "sqs.us-east-1.amazonaws.com"}),
    "decrypt anything": ("kms:Decrypt", KEY, {}),
    "decrypt in S3": ("kms:Decrypt", KEY, {"kms:ViaService": "s3.us-east-1.amazonaws.com"}),
    "use another key": ("kms:Decrypt", f"{KEY}-2", {"kms:ViaService": "sqs.us-east-1.amazonaws.com"}),
    "mount": ("elasticfilesystem:ClientMount", "*", {"elasticfilesystem:AccessPointArn": ACCESS_POINT}),
    "mount another": ("elasticfilesystem:ClientMount", "*", {"elasticfilesystem:AccessPointArn": ACCESS_POINT + "2"}),
    "mount without an access point": ("elasticfilesystem:ClientMount", "*", {}),
    "write to the mount": ("elasticfilesystem:ClientWrite", "*", {"elasticfilesystem:AccessPointArn": ACCESS_POINT}),
    "let Lambda join the network": ("ec2:CreateNetworkInterface", "*", {}),
    "join the network itself": ("ec2:CreateNetworkInterface", "*", OWN_CODE),
    "leave the network itself": ("ec2:DeleteNetworkInterface", "*", OWN_CODE),
    "start a machine": ("ec2:RunInstances", "*", {}),
    "call itself": ("lambda:InvokeFunction", FUNCTION, {}),
    "change its code": ("lambda:UpdateFunctionCode", FUNCTION, {}),
    "read its own policy": ("iam:GetRolePolicy", "arn:aws:iam::000000000000:role/Role", {}),
    "pass its role": ("iam:PassRole", "arn:aws:iam::000000000000:role/Role", {}),
    "take another role": ("sts:AssumeRole", "arn:aws:iam::000000000000:role/other", {}),
    "read a secret": ("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{AWS}:secret:x", {}),
    "read a parameter": ("ssm:GetParameter", f"arn:aws:ssm:{AWS}:parameter/x", {}),
}

MAY: dict[str, set[str]] = {
    "tracing": {"send a trace"},
    "sources": {"read a source", "read a whole source"},
    "weights": {"read the weights"},
    "folder": {"read the folder's weights"},
    "file-system": {"mount", "let Lambda join the network"},
    "bucket": {"read a picture", "take a message of its own queue"},
    "existing-queue": {"take a message"},
    "queue": {"take a message of its own queue"},
    "fifo": {"take a message of its own queue"},
    "two queues": {"take a message", "take a message of its own queue"},
    "results": {"write a result"},
    "no sources": {"write a result"},
    "failures": {"keep a failure"},
    "failures with a key": {"keep a failure", "encrypt a failure", "decrypt a message"},
    "batch": {"read a source", "read a whole source", "write a result"},
    "everything": {
        "send a trace",
        "read a picture",
        "read beside the pictures",  # there is no prefix
        "read a whole source",
        "write a result",
        "take a message",
        "take a message of its own queue",
        "decrypt a message",
        "encrypt a failure",
        "keep a failure",
        "mount",
        "let Lambda join the network",
    },
}
"""Besides its own log, to which it may always write. With the other sets it may do nothing else."""

WITHOUT_RESOURCE = {
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
    "elasticfilesystem:ClientMount",  # with the access point as its condition
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
    "cloudwatch:DescribeAlarms",
}
"""What AWS takes only for all resources, or where the resource has no name yet."""


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.fixture(scope="module")
def made() -> dict[str, Stack]:
    return stacks(SETS)


@pytest.fixture(scope="module")
def decided(made: dict[str, Stack]) -> dict[str, set[str]]:
    """What the function may do of ATTEMPTS, for each set of parameters."""
    asked = [
        {"policies": policies(made[name], "Role"), "action": action, "resource": resource, "context": context}
        for name in SETS
        for action, resource, context in ATTEMPTS.values()
    ]
    answers = iter(allowed(asked))
    return {name: {attempt for attempt in ATTEMPTS if next(answers)} for name in SETS}


def test_the_emulators_iam_decides_as_aws_documents_it() -> None:
    """Deny wins; wildcards; a condition on a key that the request lacks is not met; a boundary narrows."""

    def policy(effect: str, action: str, resource: str, **condition: Any) -> dict[str, Any]:
        statement = {"Effect": effect, "Action": action, "Resource": resource}
        return {"Version": "2012-10-17", "Statement": [statement | ({"Condition": condition} if condition else {})]}

    read = policy("Allow", "s3:Get*", "arn:aws:s3:::a/?.jpg")
    if_key = policy("Allow", "s3:*", "*", StringEquals={"kms:ViaService": "x"})
    request = {"action": "s3:GetObject", "resource": "arn:aws:s3:::a/1.jpg"}
    deny = policy("Deny", "*", "*")
    assert allowed(
        [
            request | {"policies": [read]},
            request | {"policies": []},
            request | {"policies": [read, deny]},
            request | {"policies": [read], "resource": "arn:aws:s3:::a/10.jpg"},
            request | {"policies": [read], "action": "s3:PutObject"},
            request | {"policies": [if_key]},
            request | {"policies": [if_key], "context": {"kms:ViaService": "x"}},
            request | {"policies": [read], "boundary": policy("Allow", "sqs:*", "*")},
            request | {"policies": [read], "boundary": policy("Allow", "s3:*", "*")},
        ]
    ) == [True, False, False, False, False, False, True, False, True]


@pytest.mark.parametrize("name", SETS)
def test_what_the_function_may_do_and_nothing_else(name: str, decided: dict[str, set[str]]) -> None:
    assert decided[name] == MAY.get(name, set()) | {"write its log"}


def test_each_addon_is_a_set() -> None:
    assert [name for name in SETS if name in addon_names()] == addon_names()


@pytest.mark.parametrize("name", SETS)
def test_no_role_may_do_a_thing_to_everything(name: str, made: dict[str, Stack]) -> None:
    for role in {"Role", "DeploymentRole", "BatchRole"} & made[name].keys():
        for statement in (s for policy in policies(made[name], role) for s in policy["Statement"]):
            if statement["Effect"] == "Deny":
                continue
            actions = set(listed(statement["Action"]))
            assert not any("*" in action for action in actions), statement
            if "*" in listed(statement["Resource"]):
                assert actions <= WITHOUT_RESOURCE, statement


def test_the_core_is_small(made: dict[str, Stack]) -> None:
    """The layers and the alias are resources of SAM's, too."""
    stack = made["core"]
    (only,) = policies(stack, "Role")
    assert [row["Resource"] for row in only["Statement"]] == [f"{LOG}:*"]
    assert stack["FunctionUrl"]["Properties"]["AuthType"] == "AWS_IAM"
    assert {row["Type"].split("::")[1] for row in stack.values()} == {"Lambda", "IAM", "Logs", "CloudWatch"}
    function = stack["Function"]["Properties"]
    assert not {"KmsKeyArn", "CodeSigningConfigArn", "ReservedConcurrentExecutions", "VpcConfig"} & function.keys()
    assert "UpdatePolicy" not in stack["FunctionAliaslive"]
    assert "PermissionsBoundary" not in stack["Role"]["Properties"]
    assert "Cors" not in stack["FunctionUrl"]["Properties"]
    assert stack["LogGroup"]["DeletionPolicy"] == "Delete"


def test_an_empty_parameter_leaves_no_policy_behind(made: dict[str, Stack]) -> None:
    _, results = policies(made["no sources"], "Role")
    assert results["Statement"][0]["Resource"] == "arn:aws:s3:::answers/coldforge/*"


def test_what_is_on_reaches_the_resource(made: dict[str, Stack]) -> None:
    stack = {name: row["Properties"] for name, row in made["everything"].items()}
    function = stack["Function"]
    assert function["KmsKeyArn"] == KEY
    assert function["CodeSigningConfigArn"] == SIGNING
    assert function["ReservedConcurrentExecutions"] == "5"
    assert [stack[log]["KmsKeyId"] for log in ("LogGroup", "ApiLogGroup")] == [KEY, KEY]
    for queue in ("FailureQueue", "InputQueue", "DeadLetterQueue"):
        assert stack[queue]["KmsMasterKeyId"] == KEY
        assert "SqsManagedSseEnabled" not in stack[queue]
    assert [stack[role]["PermissionsBoundary"] for role in ("Role", "DeploymentRole", "BatchRole")] == [BOUNDARY] * 3
    for mapping in ("QueueMapping", "InputQueueMapping"):
        assert stack[mapping]["ScalingConfig"] == {"MaximumConcurrency": "4"}
        assert stack[mapping]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert stack[mapping]["FunctionName"] == "FunctionAliaslive"
    stage = stack["ApiApiGatewayDefaultStage"]
    limits = {"ThrottlingRateLimit": "10", "ThrottlingBurstLimit": "20"}
    assert stage["DefaultRouteSettings"] == limits
    assert stack["RestStage"]["MethodSettings"] == [{"ResourcePath": "/*", "HttpMethod": "*"} | limits]
    for settings in (stage["AccessLogSettings"], stack["RestStage"]["AccessLogSetting"]):
        assert settings["DestinationArn"] == f"arn:aws:logs:{AWS}:log-group:ApiLogGroup"
    assert made["failures"]["FailureQueue"]["Properties"]["SqsManagedSseEnabled"] is True


def test_the_access_log_is_json_without_what_the_caller_wrote(made: dict[str, Stack]) -> None:
    stack = {name: row["Properties"] for name, row in made["everything"].items()}
    http, rest = stack["ApiApiGatewayDefaultStage"]["AccessLogSettings"], stack["RestStage"]["AccessLogSetting"]
    for form in (http["Format"], rest["Format"]):
        fields = set(json.loads(form).values())
        assert "$context.identity.userArn" in fields
        assert not {"$context.path", "$context.identity.userAgent"} & fields


def test_failures_are_kept_of_the_function(made: dict[str, Stack]) -> None:
    stack = {name: row["Properties"] for name, row in made["everything"].items()}
    queue = f"arn:aws:sqs:{AWS}:FailureQueue"
    destination = stack["FailureDestination"]
    assert destination["DestinationConfig"] == {"OnFailure": {"Destination": queue}}
    assert destination["Qualifier"] == stack["FunctionAliaslive"]["Name"]
    assert made["everything"]["FailureDestination"]["DependsOn"] in made["everything"]
    (deny,) = stack["FailureQueuePolicy"]["PolicyDocument"]["Statement"]
    assert deny["Effect"] == "Deny"
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_new_objects_go_through_a_queue_that_keeps_what_fails(made: dict[str, Stack]) -> None:
    stack = {name: row["Properties"] for name, row in made["bucket"].items()}
    queue, dead = (f"arn:aws:sqs:{AWS}:{name}" for name in ("InputQueue", "DeadLetterQueue"))
    (target,) = stack["SourceRule"]["Targets"]
    assert target == {"Id": "queue", "Arn": queue, "DeadLetterConfig": {"Arn": dead}}
    assert stack["InputQueueMapping"]["EventSourceArn"] == queue
    assert stack["InputQueue"]["RedrivePolicy"] == {"deadLetterTargetArn": dead, "maxReceiveCount": "5"}
    assert int(stack["InputQueue"]["VisibilityTimeout"]) >= 6 * int(stack["Function"]["Timeout"])
    assert stack["DeadLetterQueue"]["MessageRetentionPeriod"] > stack["InputQueue"]["MessageRetentionPeriod"]
    permissions = [row for row in stack.values() if row.get("Principal") == "events.amazonaws.com"]
    assert not permissions  # nothing but the queue starts the function
    for name, alarm, metric in (
        ("DeadLetterQueue", "DeadLetterAlarm", "ApproximateNumberOfMessagesVisible"),
        ("InputQueue", "LateAlarm", "ApproximateAgeOfOldestMessage"),
    ):
        assert stack[name]["SqsManagedSseEnabled"] is True
        assert stack[alarm]["Dimensions"] == [{"Name": "QueueName", "Value": name}]
        assert stack[alarm]["MetricName"] == metric


def test_only_the_rule_may_send_to_the_queues_and_nobody_in_the_clear(made: dict[str, Stack]) -> None:
    for name, arn in ((name, f"arn:aws:sqs:{AWS}:{name}") for name in ("InputQueue", "DeadLetterQueue")):
        policy = made["everything"][f"{name}Policy"]["Properties"]
        assert policy["Queues"] == [name]
        deny, send = policy["PolicyDocument"]["Statement"]
        assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
        assert (send["Action"], send["Resource"], deny["Resource"]) == ("sqs:SendMessage", arn, arn)
        assert send["Principal"] == {"Service": "events.amazonaws.com"}
        assert send["Condition"] == {"ArnEquals": {"aws:SourceArn": f"arn:aws:events:{AWS}:SourceRule"}}
        (alone,) = made["queue"][f"{name}Policy"]["Properties"]["PolicyDocument"]["Statement"]
        assert alone["Effect"] == "Deny"


def test_an_ordered_queue_has_an_ordered_dead_letter_queue(made: dict[str, Stack]) -> None:
    queue, dead = (made["fifo"][name]["Properties"] for name in ("InputQueue", "DeadLetterQueue"))
    assert queue["FifoQueue"] is dead["FifoQueue"] is True
    assert queue["DeduplicationScope"] == "messageGroup"


def test_the_function_knows_how_often_messages_come_only_where_it_is_so(made: dict[str, Stack]) -> None:
    told = {
        name: stack["Function"]["Properties"]["Environment"]["Variables"].get("COLDFORGE_QUEUE_ATTEMPTS")
        for name, stack in made.items()
    }
    assert told.pop("fifo") == made["fifo"]["InputQueue"]["Properties"]["RedrivePolicy"]["maxReceiveCount"]
    assert set(told.values()) == {None}


def test_a_gradual_deployment_is_rolled_back_by_alarms_for_errors(made: dict[str, Stack]) -> None:
    stack = made["everything"]
    moved = stack["FunctionAliaslive"]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
    assert moved["DeploymentGroupName"] == {"Ref": "FunctionDeploymentGroup"}
    group = stack["FunctionDeploymentGroup"]["Properties"]
    assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent5Minutes"
    alarms = [row["Name"] for row in group["AlarmConfiguration"]["Alarms"]]
    assert group["AlarmConfiguration"]["Enabled"] is True
    assert alarms == ["ErrorAlarm", "InternalErrorAlarm"]
    assert all(stack[alarm]["Type"] == "AWS::CloudWatch::Alarm" for alarm in alarms)
    assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
    assert group["AutoRollbackConfiguration"]["Enabled"] is True
    assert group["ServiceRoleArn"] == f"arn:aws:iam:{AWS}:DeploymentRole"
    (trust,) = stack["DeploymentRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "000000000000"}}


def test_code_deploy_moves_this_functions_alias_only(made: dict[str, Stack]) -> None:
    own = policies(made["everything"], "DeploymentRole")
    asked = [
        ("lambda:UpdateAlias", FUNCTION),
        ("lambda:UpdateAlias", f"{FUNCTION}-of-others"),
        ("lambda:UpdateFunctionCode", FUNCTION),
        ("lambda:InvokeFunction", FUNCTION),
        ("cloudwatch:DescribeAlarms", "*"),
        ("cloudwatch:DeleteAlarms", "*"),
    ]
    found = allowed([{"policies": own, "action": action, "resource": resource} for action, resource in asked])
    assert found == [True, False, False, False, True, False]


def test_the_state_machine_may_call_this_function_and_use_the_results_alone(made: dict[str, Stack]) -> None:
    own = policies(made["batch"], "BatchRole")
    machine = f"arn:aws:states:{AWS}:stateMachine:stack-batch"
    run = f"arn:aws:states:{AWS}:execution:stack-batch"
    asked = {
        ("lambda:InvokeFunction", "FunctionAliaslive"): True,
        ("lambda:InvokeFunction", FUNCTION): False,
        ("lambda:UpdateFunctionCode", FUNCTION): False,
        ("s3:GetObject", "arn:aws:s3:::answers/coldforge/run1/list/0.jsonl"): True,
        ("s3:PutObject", "arn:aws:s3:::answers/coldforge/run1/report/0/manifest.json"): True,
        ("s3:GetObject", "arn:aws:s3:::answers/other/1.json"): False,
        ("s3:DeleteObject", "arn:aws:s3:::answers/coldforge/run1/list/0.jsonl"): False,
        ("s3:GetObject", "arn:aws:s3:::shop/photos/1.jpg"): False,
        ("states:StartExecution", machine): True,
        ("states:StartExecution", f"{machine}-of-others"): False,
        ("states:StopExecution", f"{run}/Answer:1"): True,
        ("states:DescribeExecution", f"{run}:1"): True,
        ("states:DescribeExecution", f"{run}-of-others:1"): False,
        ("states:UpdateStateMachine", machine): False,
    }
    found = allowed([{"policies": own, "action": action, "resource": resource} for action, resource in asked])
    assert found == list(asked.values())
    (trust,) = made["batch"]["BatchRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "000000000000"}}


def test_the_map_reads_our_list_and_tries_again_with_jitter(made: dict[str, Stack]) -> None:
    machine = made["everything"]["BatchMachine"]["Properties"]
    assert machine["StateMachineType"] == "STANDARD"
    assert machine["TracingConfiguration"] == {"Enabled": True}
    assert "TracingConfiguration" not in made["batch"]["BatchMachine"]["Properties"]
    answer = machine["Definition"]["States"]["Answer"]
    assert answer["ItemReader"]["ReaderConfig"] == {"InputType": "JSONL"}
    assert answer["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    (task,) = answer["ItemProcessor"]["States"].values()
    assert task["Parameters"]["FunctionName"] == "FunctionAliaslive"
    throttled, failed = task["Retry"]
    assert throttled["ErrorEquals"] == ["Lambda.TooManyRequestsException"]
    assert failed["ErrorEquals"] == ["States.ALL"]
    assert throttled["JitterStrategy"] == failed["JitterStrategy"] == "FULL"
    assert failed["MaxAttempts"] > LAST_ATTEMPT


def operations(stack: Stack) -> dict[tuple[str, str], dict[str, Any]]:
    paths = stack["Api"]["Properties"]["Body"]["paths"]
    return {(method.upper(), path): row for path, methods in paths.items() for method, row in methods.items()}


@pytest.mark.parametrize("name", ["http-api", "access-log"])
def test_every_route_wants_a_signature_and_none_takes_a_preflight(name: str, made: dict[str, Stack]) -> None:
    """API Gateway answers a preflight itself only where no route takes OPTIONS, as $default and ANY do.

    https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-cors.html
    """
    found = operations(made[name])
    assert found.keys() == {
        ("GET", "/"),
        ("HEAD", "/"),
        ("GET", "/{proxy+}"),
        ("HEAD", "/{proxy+}"),
        ("POST", "/{proxy+}"),
    }
    assert all(row["security"] == [{"AWS_IAM": []}] for row in found.values())
    (scheme,) = made[name]["Api"]["Properties"]["Body"]["components"]["securitySchemes"].values()
    assert scheme["x-amazon-apigateway-authtype"] == "awsSigv4"


def test_every_route_calls_the_alias_which_lets_this_api_alone(made: dict[str, Stack]) -> None:
    stack = made["http-api"]
    (called,) = {row["x-amazon-apigateway-integration"]["uri"] for row in operations(stack).values()}
    assert called.endswith("functions/FunctionAliaslive/invocations")
    permissions = [row["Properties"] for row in stack.values() if row["Type"] == "AWS::Lambda::Permission"]
    ours = [row for row in permissions if row["Principal"] == "apigateway.amazonaws.com"]
    assert {row["FunctionName"] for row in ours} == {"FunctionAliaslive"}
    assert all(row["SourceArn"].startswith("arn:aws:execute-api:us-east-1:000000000000:Api/*/") for row in ours)


def test_tokens_of_the_issuer_open_every_route_instead_of_signatures(made: dict[str, Stack]) -> None:
    body = made["tokens"]["Api"]["Properties"]["Body"]
    assert all(row["security"] == [{"jwt": []}] for row in operations(made["tokens"]).values())
    (scheme,) = body["components"]["securitySchemes"].values()
    assert scheme["x-amazon-apigateway-authorizer"] == {
        "type": "jwt",
        "identitySource": "$request.header.Authorization",
        "jwtConfiguration": {"issuer": REQUIRED["JwtIssuer"], "audience": ["app", "other-app"]},
    }
    assert made["tokens"]["FunctionUrl"]["Properties"]["AuthType"] == "AWS_IAM"


@pytest.mark.parametrize(("name", "authorization", "keys"), [("everything", "NONE", True), ("waf", "AWS_IAM", False)])
def test_a_rest_api_wants_a_key_or_a_signature(
    name: str, authorization: str, keys: bool, made: dict[str, Stack]
) -> None:
    stack = {name: row["Properties"] for name, row in made[name].items()}
    method = stack["RestMethod"]
    assert (method["AuthorizationType"], method["ApiKeyRequired"]) == (authorization, keys)
    assert ("UsagePlan" in stack, "ApiKey" in stack, "UsagePlanKey" in stack) == (keys,) * 3
    # A deployment is a copy of the methods: another way to get in is another one.
    (deployment,) = (name for name in stack if name.startswith("Rest") and name.endswith("Deployment"))
    assert stack["RestStage"]["DeploymentId"] == deployment == ("RestKeyDeployment" if keys else "RestIamDeployment")
    assert made[name][deployment]["DependsOn"] == "RestMethod"
    association = stack["WebAclAssociation"]
    assert association["WebACLArn"] == REQUIRED["WebAclArn"]
    assert association["ResourceArn"] == "arn:aws:apigateway:us-east-1::/restapis/Rest/stages/RestStage"


def test_the_key_has_a_quota_and_the_domain_leads_to_the_rest_api(made: dict[str, Stack]) -> None:
    stack = {name: row["Properties"] for name, row in made["everything"].items()}
    assert stack["UsagePlan"]["Quota"] == {"Limit": "1000", "Period": "DAY"}
    assert stack["UsagePlan"]["ApiStages"] == [{"ApiId": "Rest", "Stage": "RestStage"}]
    assert stack["UsagePlanKey"] == {"KeyId": "ApiKey", "KeyType": "API_KEY", "UsagePlanId": "UsagePlan"}
    (domain,) = stack["Domain"]["DomainNameConfigurations"]
    assert (domain["CertificateArn"], domain["SecurityPolicy"]) == (REQUIRED["CertificateArn"], "TLS_1_2")
    assert stack["DomainMapping"] == {"DomainName": "Domain", "ApiId": "Rest", "Stage": "RestStage"}
    assert stack["DomainRecord"]["AliasTarget"] == {"DNSName": "regional.example", "HostedZoneId": "ZREGIONAL"}


def test_kept_logs_stay_under_a_name_that_the_next_stack_does_not_take(made: dict[str, Stack]) -> None:
    kept = [made["everything"][name] for name in ("LogGroup", "ApiLogGroup")] + [made["kept-logs"]["LogGroup"]]
    assert all(row["DeletionPolicy"] == row["UpdateReplacePolicy"] == "Retain" for row in kept)
    assert all(row["Properties"]["LogGroupName"].endswith("/of-this-stack") for row in kept)
    assert made["access-log"]["ApiLogGroup"]["DeletionPolicy"] == "Delete"


def test_opentelemetry_comes_by_a_layer_and_starts_the_function(made: dict[str, Stack]) -> None:
    function = made["opentelemetry"]["Function"]["Properties"]
    assert function["Layers"][2:] == [REQUIRED["OtelLayerArn"]]
    variables = {
        "AWS_LAMBDA_EXEC_WRAPPER": "/opt/otel-instrument",
        "COLDFORGE_OTEL": "on",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector.example:4318",
        "OTEL_SERVICE_NAME": "stack",
    }
    assert function["Environment"]["Variables"].items() >= variables.items()
    without = made["core"]["Function"]["Properties"]
    assert len(without["Layers"]) == 2
    assert not variables.keys() & without["Environment"]["Variables"].keys()


def test_both_entrances_answer_a_preflight_alike(made: dict[str, Stack]) -> None:
    api = made["http-api"]["Api"]["Properties"]["Body"]["x-amazon-apigateway-cors"]
    url = made["http-api"]["FunctionUrl"]["Properties"]["Cors"]
    assert api == {name[0].lower() + name[1:]: value for name, value in url.items()}


def test_on_instances_the_function_runs_on_the_capacity_provider_and_nowhere_else() -> None:
    chosen = {"RequestsAtOnce": "16", "MemoryPerProcessor": "8", "MemorySize": "8192", "MostEnvironments": "5"}
    made = stacks({"instances": ([], chosen)}, "instances")["instances"]
    function = made["Function"]["Properties"]
    assert function["CapacityProviderConfig"]["LambdaManagedInstancesCapacityProviderConfig"] == {
        "CapacityProviderArn": REQUIRED["CapacityProvider"],
        "PerExecutionEnvironmentMaxConcurrency": "16",
        "ExecutionEnvironmentMemoryGiBPerVCpu": "8",
    }
    assert function["FunctionScalingConfig"] == {"MinExecutionEnvironments": "3", "MaxExecutionEnvironments": "5"}
    assert function["LoggingConfig"]["LogFormat"] == "JSON"
    assert not function.keys() & {"VpcConfig", "FileSystemConfigs", "SnapStart", "ReservedConcurrentExecutions"}
    assert "ProvisionedConcurrencyConfig" not in made["FunctionAliaslive"]["Properties"]


# From here on with the emulator's API, over HTTP. It needs no engine: no function runs.


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    with local_aws(tmp_path_factory.mktemp("aws") / "log") as emulator, pytest.MonkeyPatch.context() as patch:
        for name, value in client_environment(emulator.endpoint).items():
            patch.setenv(name, value)
        yield emulator


REST = ["snapstart", "fifo", "queue", "weights"]
"""The add-ons that do not go together with all others."""


@pytest.fixture(scope="module")
def code(aws: LocalAws) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("handler/app.py", "")
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=CODE["Bucket"])
    s3.put_object(Bucket=CODE["Bucket"], Key=CODE["Key"], Body=archive.getvalue())


def create(aws: LocalAws, name: str, addons: list[str], parameters: dict[str, str]) -> dict[str, Any]:
    """Create a stack as `sam deploy` does, and return what CloudFormation says of it."""
    template, cloudformation = packaged(addons), boto3.client("cloudformation")
    boto3.client("s3").put_object(Bucket=CODE["Bucket"], Key="template.json", Body=json.dumps(template).encode())
    given = {key: value for key, value in filled(template, parameters).items() if key in template["Parameters"]}
    cloudformation.create_stack(
        StackName=name,
        TemplateURL=f"{aws.endpoint}/{CODE['Bucket']}/template.json",
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
    )
    stack = settled(cloudformation, name)
    assert stack["StackStatus"] == "CREATE_COMPLETE", cloudformation.describe_stack_events(StackName=name)
    return stack


@pytest.mark.usefixtures("code")
@pytest.mark.parametrize("addons", [[], REST], ids=["core", "rest"])
def test_a_stack_is_created(addons: list[str], aws: LocalAws) -> None:
    assert {*EVERYTHING, *REST} == {*addon_names()}
    stack = create(aws, "small", addons, {})
    outputs = {output["OutputKey"] for output in stack["Outputs"]}
    assert ("QueueUrl" in outputs) is bool(addons)
    cloudformation = boto3.client("cloudformation")
    cloudformation.delete_stack(StackName="small")
    assert settled(cloudformation, stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"


@pytest.mark.usefixtures("code")
def test_a_stack_with_everything_is_created(aws: LocalAws) -> None:
    boto3.client("sqs").create_queue(QueueName=QUEUE.rpartition(":")[2])
    zone = boto3.client("route53").create_hosted_zone(Name="models.example", CallerReference="1")["HostedZone"]["Id"]
    cloudformation = boto3.client("cloudformation")
    addons = [name for name in EVERYTHING if name not in ("waf", "canary")]  # it has neither association nor CodeDeploy
    stack = create(aws, "everything", addons, ALL | {"HostedZoneId": zone.rpartition("/")[2]})
    rows = cloudformation.describe_stack_resources(StackName="everything")["StackResources"]
    ids = {row["LogicalResourceId"]: row["PhysicalResourceId"] for row in rows}
    functions = boto3.client("lambda")
    kept = functions.get_function_event_invoke_config(FunctionName=ids["Function"], Qualifier="live")
    queue = boto3.client("sqs").get_queue_attributes(QueueUrl=ids["FailureQueue"], AttributeNames=["All"])["Attributes"]
    assert kept["DestinationConfig"]["OnFailure"]["Destination"] == queue["QueueArn"]
    (target,) = boto3.client("events").list_targets_by_rule(Rule=ids["SourceRule"])["Targets"]
    mappings = functions.list_event_source_mappings(FunctionName=ids["Function"])["EventSourceMappings"]
    assert {mapping["EventSourceArn"] for mapping in mappings} == {target["Arn"], QUEUE}
    assert all(mapping["ScalingConfig"] == {"MaximumConcurrency": 4} for mapping in mappings)
    own = boto3.client("sqs").get_queue_attributes(QueueUrl=ids["InputQueue"], AttributeNames=["All"])["Attributes"]
    assert own["QueueArn"] == target["Arn"]
    redrive = json.loads(own["RedrivePolicy"])
    assert redrive["deadLetterTargetArn"] == target["DeadLetterConfig"]["Arn"]
    groups = {row["logGroupName"] for row in boto3.client("logs").describe_log_groups()["logGroups"]}
    ends = stack["StackId"].rpartition("/")[2]
    assert {f"/coldforge/everything/{ends}", f"/aws/vendedlogs/coldforge/everything/{ends}"} <= groups
    # The REST API asks for the key that the stack made, before it would start the function.
    gateway = boto3.client("apigateway")
    key = gateway.get_api_key(apiKey=ids["ApiKey"], includeValue=True)["value"]
    assert asked_of(aws, ids["Rest"], "/live/v1/models", {}) == 403
    assert asked_of(aws, ids["Rest"], "/live/v1/models", {"x-api-key": "guessed"}) == 403
    assert asked_of(aws, ids["Rest"], "/live/v1/models", {"x-api-key": key}) != 403
    cloudformation.delete_stack(StackName="everything")
    assert settled(cloudformation, stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    groups = {row["logGroupName"] for row in boto3.client("logs").describe_log_groups()["logGroups"]}
    assert {f"/coldforge/everything/{ends}", f"/aws/vendedlogs/coldforge/everything/{ends}"} <= groups


def settled(cloudformation: Any, stack: str) -> dict[str, Any]:
    """What CloudFormation says of the stack once it no longer changes, or after a minute."""
    deadline = time.monotonic() + 60
    while True:
        found: dict[str, Any] = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
        if not found["StackStatus"].endswith("IN_PROGRESS") or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def asked_of(aws: LocalAws, api: str, path: str, headers: dict[str, str]) -> int:
    """The status that an API of the emulator answers a GET with."""
    place = urlsplit(aws.endpoint)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    connection.request("GET", path, headers={"Host": f"{api}.execute-api.localhost:{place.port}", **headers})
    response = connection.getresponse()
    response.read()
    return response.status


@pytest.mark.parametrize("name", ["access-log", "http-api"])
def test_a_preflight_without_a_signature(name: str, aws: LocalAws, made: dict[str, Stack]) -> None:
    """The API as the template describes it, made in the emulator and asked as a browser asks."""
    client = boto3.client("apigatewayv2")
    cors = made[name]["Api"]["Properties"]["Body"].get("x-amazon-apigateway-cors", {})
    settings = {field[0].upper() + field[1:]: value for field, value in cors.items()}
    api = client.create_api(Name=name, ProtocolType="HTTP", CorsConfiguration=settings)["ApiId"]
    for (method, path), row in operations(made[name]).items():
        (kind,) = row["security"][0]
        client.create_route(ApiId=api, RouteKey=f"{method} {path}", AuthorizationType=kind)
    client.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
    place = urlsplit(aws.endpoint)

    def answer(method: str, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        host = f"{api}.execute-api.localhost:{place.port}"
        connection.request(method, "/predict", headers={"Host": host, **headers})
        response = connection.getresponse()
        response.read()
        return response

    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,authorization"}
    preflight = answer("OPTIONS", Origin=ORIGIN, **wanted)
    if name == "access-log":
        assert preflight.getheader("access-control-allow-origin") is None
    else:
        assert preflight.status in (200, 204)
        assert preflight.getheader("access-control-allow-origin") == ORIGIN
        assert {"content-type", "authorization"} <= set(preflight.getheader("access-control-allow-headers").split(","))
        assert "POST" in preflight.getheader("access-control-allow-methods").split(",")
    stranger = answer("OPTIONS", Origin="https://evil.example", **wanted)
    assert stranger.getheader("access-control-allow-origin") is None
    assert answer("POST", Origin=ORIGIN).status == 403  # only preflights go without a signature
