"""Commands between a bundle and AWS: publish, stage, check."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from builder.cli.command import (
    Arguments,
    Command,
    Options,
    add_bundled_models,
    add_target,
    answer,
    load_spec,
    targets_of,
)
from builder.errors import UsageError
from builder.files import write_file
from builder.project import Project


def _publish_arguments(parser: Arguments) -> None:
    add_bundled_models(parser)
    add_target(parser)
    parser.add_argument("--dependencies", action="store_true", help="publish the dependencies layer as well")
    parser.add_argument("--bucket", help="S3 bucket for a zip over 50 MB (default: the one SAM made)")
    parser.add_argument("--prune", type=int, metavar="N", help="keep the newest N versions and those in use")
    parser.add_argument("--endpoint-url", metavar="URL", help="endpoint of another AWS, such as a local emulator")


def publish(options: Options, project: Project) -> None:
    from builder.deliver.publish import layers_of, publish
    from builder.pack.join import joined_name

    if options.prune is not None and options.prune < 1:
        raise UsageError(f"--prune {options.prune} would keep no version; give 1 or more.")
    specs = [load_spec(model, project) for model in options.models]
    name, named = joined_name([spec.name for spec in specs]), " ".join(options.models)
    layers = [
        layer
        for target in targets_of(options, specs[0])
        for layer in layers_of(name, target, project, dependencies=options.dependencies, named=named)
    ]
    for layer in layers:
        done = publish(
            layer.archive,
            layer.name,
            architecture=layer.target.architecture,
            bucket=options.bucket,
            keep=options.prune,
            endpoint=options.endpoint_url,
        )
        if options.json:
            print(json.dumps(asdict(done)))
            continue
        gone = f"; deleted {', '.join(map(str, done.pruned))}" if done.pruned else ""
        print(f"{done.arn}  ({'new' if done.created else 'AWS had the same bytes already'}{gone})")


def _stage_arguments(parser: Arguments) -> None:
    add_bundled_models(parser)
    add_target(parser)


def stage(options: Options, project: Project) -> None:
    from builder.deliver.stage import stage

    specs = [load_spec(model, project) for model in options.models]
    *_, target = targets_of(options, specs[0])
    staged = stage([spec.name for spec in specs], project, target, " ".join(options.models))
    answer(options, asdict(staged), f"{staged.name} {staged.version}")


def _parameters_arguments(parser: Arguments) -> None:
    parser.add_argument(
        "parameters", nargs="*", metavar="NAME=VALUE", help="parameters that override those of samconfig.toml"
    )
    parser.add_argument(
        "--env", default="default", metavar="NAME", help="an environment of samconfig.toml (default: default)"
    )


def parameters(options: Options, project: Project) -> None:
    from builder.deliver.environments import parameters

    found = parameters(project.root / "samconfig.toml", options.env, options.parameters)
    if found or options.json:
        answer(options, {"parameters": found}, "\n".join(f"{name}={value}" for name, value in found.items()))


def _template_arguments(parser: Arguments) -> None:
    parser.add_argument("form", choices=("terraform", "cdk"), help="what it is for")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where the files go (default: .)")


def template(options: Options, project: Project) -> None:
    from builder.infrastructure.cdk import cdk_construct
    from builder.infrastructure.facts import facts_of
    from builder.infrastructure.terraform import terraform_module

    facts = facts_of(project.root / "template.yaml")
    files = cdk_construct(facts) if options.form == "cdk" else {"main.tf.json": terraform_module(facts)}
    for name, text in files.items():
        write_file(options.out / name, text)
    written = [str(options.out / name) for name in files]
    answer(options, {"files": written}, "\n".join(written))


def _check_arguments(parser: Arguments) -> None:
    parser.add_argument("parameters", nargs="*", metavar="NAME=VALUE", help="parameters to deploy with")
    parser.add_argument(
        "--template", type=Path, default=Path(".aws-sam/build/template.yaml"), metavar="FILE",
        help="the built template (default: .aws-sam/build/template.yaml)",
    )  # fmt: skip


def check(options: Options, _project: Project) -> None:
    from builder.deliver.template_check import require

    if wrong := [p for p in options.parameters if "=" not in p]:
        raise UsageError(f"{wrong[0]}: write parameters as NAME=VALUE.")
    require(options.template, dict(p.split("=", 1) for p in options.parameters))
    if options.json:
        answer(options, {"template": options.template.resolve()}, "")


COMMANDS = (
    Command("publish", "publish a bundle's layer to AWS, unless it is there already", _publish_arguments, publish),
    Command(
        "stage", "make a bundle the one that `sam build` takes, and print its name and version", _stage_arguments, stage
    ),
    Command(
        "parameters",
        "print the parameters of an environment in samconfig.toml, overridden by those given",
        _parameters_arguments,
        parameters,
    ),
    Command(
        "template", "write template.yaml as a Terraform module or an AWS CDK construct", _template_arguments, template
    ),
    Command("check", "check a built SAM template against Lambda's limits", _check_arguments, check),
)
