"""The function on Lambda Managed Instances, as a template of its own.

``template-instances.yaml`` is ``template.yaml`` but for where the function runs, and made from it for each deployment.
It cannot be one parameter of template.yaml: SAM takes no condition for CapacityProviderConfig, and none of it beside
provisioned concurrency or a VPC; and AWS fixes for good where a function runs when it is created.
https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/sam-property-function-capacityproviderconfig.html
"""

from __future__ import annotations

from builder.pack.edits import edited
from builder.pack.limits import INSTANCE_MEMORY_MAX_MB, INSTANCE_MEMORY_MIN_MB

TEMPLATE = "template-instances.yaml"

_PARAMETERS = f"""\
  MemorySize:
    Type: Number
    Default: 4096
    MinValue: {INSTANCE_MEMORY_MIN_MB}
    MaxValue: {INSTANCE_MEMORY_MAX_MB}
    Description: Megabytes of an execution environment, which all of its processes share.
  CapacityProvider:
    Type: String
    AllowedPattern: "arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{{12}}:capacity-provider:[a-zA-Z0-9-_]+"
    Description: >-
      ARN of the capacity provider on whose instances the function runs. They have Architecture. A function never moves
      to another kind of compute.
  MemoryPerProcessor:
    Type: Number
    Default: 4
    AllowedValues: [2, 4, 8]
    Description: Gigabytes of MemorySize for which an environment gets one processor.
  RequestsAtOnce:
    Type: Number
    Default: 4
    MinValue: 1
    MaxValue: 64
    Description: >-
      Requests that an environment takes at once, each in a process of its own. Lambda's own default
      is 16 for each processor.
  LeastEnvironments:
    Type: Number
    Default: 3
    MinValue: 0
    MaxValue: 15000
    Description: Environments that are always started. Three are one for each availability zone.
  MostEnvironments:
    Type: Number
    Default: 12
    MinValue: 1
    MaxValue: 15000
    Description: Environments at most, which bounds what an attack can cost.
  TemporaryStorage:
    Type: Number
    Default: 512
    MinValue: 512
    MaxValue: 10240
    Description: Megabytes of /tmp, where weights from S3 are kept once for all processes of an environment.
"""

_EDITS = {
    r"^          - SnapStart\n          - ProvisionedConcurrency\n          - ReservedConcurrency\n": (
        "          - CapacityProvider\n          - MemoryPerProcessor\n          - RequestsAtOnce\n"
        "          - LeastEnvironments\n          - MostEnvironments\n          - TemporaryStorage\n"
    ),
    r"^          - FileSystem\n          - Subnets\n          - SecurityGroups\n": "",
    r"^  MemorySize:\n(?:    .*\n)+": _PARAMETERS,
    r"^  SnapStart:\n(?:    .*\n)+": "",
    r"^  ProvisionedConcurrency:\n(?:    .*\n)+": "",
    r"^  ReservedConcurrency:\n(?:    .*\n)+": "",
    r", and at most ReservedConcurrency\.": ".",
    r"\|/mnt/\[\^\*\?\$\]\*\)\?\"": ')?"',
    r"^(      s3://bucket/prefix/ with <model>\.weights in it), or a path on FileSystem, .*\n      the library\.\n": (
        r"\1. Empty - beside the library.\n"
    ),
    r"^  FileSystem:\n(?:    .*\n)+": "",
    r"^  Subnets:\n(?:    .*\n)+": "",
    r"^  SecurityGroups:\n(?:    .*\n)+": "",
    r"^  SnapStartAlone:\n(?:    .*\n)+": "",
    r"^  UseSnapStart: .*\n  UseProvisioned: .*\n  HasReserved: .*\n": "",
    r"^  HasFileSystem: .*\n  WeightsInS3: .*\n": '  WeightsInS3: !Not [!Equals [!Ref Weights, ""]]\n',
    r"^      ReservedConcurrentExecutions: .*\n": "",
    r"^      SnapStart:\n        .*\n      ProvisionedConcurrencyConfig: !If\n(?:        .*\n)+": (
        "      CapacityProviderConfig:\n"
        "        Arn: !Ref CapacityProvider\n"
        "        PerExecutionEnvironmentMaxConcurrency: !Ref RequestsAtOnce\n"
        "        ExecutionEnvironmentMemoryGiBPerVCpu: !Ref MemoryPerProcessor\n"
        "      FunctionScalingConfig:\n"
        "        MinExecutionEnvironments: !Ref LeastEnvironments\n"
        "        MaxExecutionEnvironments: !Ref MostEnvironments\n"
        "      EphemeralStorage:\n"
        "        Size: !Ref TemporaryStorage\n"
    ),
    r"^      VpcConfig: !If\n(?:        .*\n)+      FileSystemConfigs: !If\n(?:        .*\n)+": "",
    r"^      LoggingConfig:\n": "      LoggingConfig:\n        LogFormat: JSON  # the only one there\n",
    r"^        - !If\n          - HasFileSystem\n(?:          .*\n)+": "",
}


def instances_template(template: str) -> str:
    """``template.yaml``'s text with the function on instances. Raises ValueError where it is not as expected."""
    head = "# Made from template.yaml by `coldforge deploy --package instances`; edit that.\n"
    return head + edited(template, _EDITS)
