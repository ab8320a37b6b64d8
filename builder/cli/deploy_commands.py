"""Commands between a bundle and AWS: deploy, publish, stage, check."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from builder.base.errors import UsageError
from builder.base.project import Project
from builder.cli.command import (
    BUNDLED_MODELS,
    COUNT,
    TARGET,
    Options,
    argument,
    choose_targets,
    command,
    load_named_spec,
    print_result,
    progress_of,
)


@command(
    "deploy",
    "emotion --env prod --parameters MemorySize=2048",
    BUNDLED_MODELS,
    TARGET,
    argument(
        "--package",
        choices=("zip", "image", "instances"),
        default="zip",
        help="zip: layers; image: a container image; instances: Lambda Managed Instances (default: zip)",
    ),
    argument("--env", default="default", metavar="NAME", help="an environment of samconfig.toml"),
    argument(
        "--with",
        dest="addons",
        default="",
        metavar="NAMES",
        help="add-ons of the template, with commas between them, besides those of the environment",
    ),
    argument("--stack", default="", metavar="NAME", help="the stack (default: coldforge-MODEL-ENV)"),
    argument(
        "--parameters",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="parameters of the template, which override those in samconfig.toml",
    ),
    argument("--sam-flags", default="", metavar="FLAGS", help="further flags of `sam deploy`, in one string"),
    argument("--build-only", action="store_true", help="build the stack, and upload nothing"),
)
def run_deploy(options: Options, project: Project) -> None:
    """Deploy a bundle to AWS as a stack, with AWS's SAM CLI."""
    from builder.release.deploy import Deployment, deploy_bundle, find_target, parse_addons

    specs = [load_named_spec(model, project) for model in options.models]
    *_, target = choose_targets(options, specs[0])
    deployment = Deployment(
        tuple(spec.name for spec in specs),
        " ".join(options.models),
        find_target(options.parameters, target),
        package=options.package,
        environment=options.env,
        parameters=tuple(options.parameters),
        stack=options.stack,
        addons=tuple(parse_addons(options.addons)),
        sam_options=tuple(shlex.split(options.sam_flags)),
    )
    output = sys.stderr if options.json else sys.stdout
    info = deploy_bundle(deployment, project, progress_of(options).show_lines, output, upload=not options.build_only)
    print_result(options, info, f"{'built' if options.build_only else 'deployed'} {info['model']} {info['version']}")


@command(
    "publish",
    "emotion --prune 3",
    BUNDLED_MODELS,
    TARGET,
    argument("--dependencies", action="store_true", help="publish the dependencies layer as well"),
    argument("--bucket", help="S3 bucket for a zip over 50 MB (default: the one SAM made)"),
    argument("--prune", type=COUNT, metavar="N", help="keep the newest N versions and those in use"),
    argument("--endpoint-url", metavar="URL", help="endpoint of another AWS, such as a local emulator"),
)
def run_publish(options: Options, project: Project) -> None:
    """Publish a bundle's layer to AWS, unless it is there already."""
    from builder.package.join_bundles import join_names
    from builder.release.publish import list_layer_archives, publish_layer

    specs = [load_named_spec(model, project) for model in options.models]
    name, named = join_names([spec.name for spec in specs]), " ".join(options.models)
    layers = [
        layer
        for target in choose_targets(options, specs[0])
        for layer in list_layer_archives(name, target, project, dependencies=options.dependencies, named=named)
    ]
    for layer in layers:
        published = publish_layer(
            layer.archive,
            layer.name,
            architecture=layer.target.architecture,
            bucket=options.bucket,
            keep=options.prune,
            endpoint=options.endpoint_url,
        )
        if options.json:
            print(json.dumps(asdict(published)))
            continue
        gone = f"; deleted {', '.join(map(str, published.pruned))}" if published.pruned else ""
        print(f"{published.arn}  ({'new' if published.created else 'AWS had the same bytes already'}{gone})")


@command("stage", "emotion", BUNDLED_MODELS, TARGET)
def run_stage(options: Options, project: Project) -> None:
    """Make a bundle the one that SAM deploys; print name and version."""
    from builder.release.activate_bundle import activate_models

    specs = [load_named_spec(model, project) for model in options.models]
    *_, target = choose_targets(options, specs[0])
    staged = activate_models([spec.name for spec in specs], project, target, " ".join(options.models))
    print_result(options, asdict(staged), f"{staged.name} {staged.version}")


@command(
    "check",
    "MemorySize=2048 --template template.yaml",
    argument("parameters", nargs="*", metavar="NAME=VALUE", help="parameters to deploy with"),
    argument(
        "--template",
        type=Path,
        default=Path(".aws-sam/build/template.yaml"),
        metavar="FILE",
        help="the built template (default: .aws-sam/build/template.yaml)",
    ),
)
def run_check(options: Options, _project: Project) -> None:
    """Check a built SAM template and the values of its parameters."""
    from builder.release.template_check import require_deployable

    if wrong := [p for p in options.parameters if "=" not in p]:
        raise UsageError(f"{wrong[0]}: write parameters as NAME=VALUE.")
    require_deployable(options.template, dict(p.split("=", 1) for p in options.parameters))
    if options.json:
        print_result(options, {"template": options.template.resolve()}, "")


COMMANDS = (
    run_deploy,
    run_publish,
    run_stage,
    run_check,
)
