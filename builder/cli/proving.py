"""Commands that show where a bundle came from: sign, verify-bundle, reproduce."""

from __future__ import annotations

from pathlib import Path

from builder.base.project import Project
from builder.cli.command import MODEL, Arguments, Command, Options, answer, load_spec, progress_of, relative


def _bundle_argument(parser: Arguments) -> None:
    parser.add_argument("bundle", type=Path, help="a bundle's folder, such as dist/emotion")


def _sign_arguments(parser: Arguments) -> None:
    _bundle_argument(parser)
    parser.add_argument("--key", type=Path, required=True, metavar="PEM", help="private ed25519 key")


def sign(options: Options, _project: Project) -> None:
    from builder.release.bundle_check import sign_bundle

    envelope = sign_bundle(options.bundle, options.key)
    answer(options, {"file": envelope.resolve()}, f"signed: {relative(envelope)}")


def _verify_arguments(parser: Arguments) -> None:
    _bundle_argument(parser)
    parser.add_argument("--key", type=Path, metavar="PEM", help="public ed25519 key of the signer")
    parser.add_argument("--model", metavar="NAME", help="the model that the bundle must be of")
    parser.add_argument("--version", help="the version of the model that the bundle must be of")
    parser.add_argument("--strict", action="store_true", help="refuse files and signatures that are not checked")


def verify_bundle(options: Options, _project: Project) -> None:
    from builder.cli.proof_summary import checked_lines
    from builder.release.bundle_check import check_bundle, require_all_checked, require_model

    checked = check_bundle(options.bundle, options.key)
    require_model(checked, options.model, options.version)
    if options.strict:
        require_all_checked(checked)
    answer(options, checked.to_dict(), "\n".join(checked_lines(checked)))


def _reproduce_arguments(parser: Arguments) -> None:
    _bundle_argument(parser)
    parser.add_argument("--model", help=f"{MODEL}, if it is not the recorded one")


def reproduce(options: Options, project: Project) -> None:
    from builder.cli.proof_summary import comparison_lines, require_identical
    from builder.release.reproduce import reproduce

    spec = load_spec(options.model, project) if options.model else None
    done = reproduce(options.bundle, project, progress_of(options), spec)
    answer(options, done.to_dict(), "\n".join(comparison_lines(done)))
    require_identical(done)


COMMANDS = (
    Command("sign", "sign a bundle's statement of how it was built", _sign_arguments, sign),
    Command(
        "verify-bundle",
        "check a bundle's files against its statement and signature",
        _verify_arguments,
        verify_bundle,
    ),
    Command("reproduce", "build a bundle again from its recorded inputs and compare", _reproduce_arguments, reproduce),
)
