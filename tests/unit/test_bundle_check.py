"""``coldforge verify-bundle``: whatever is changed in a bundle is named, and nobody else's signature is taken."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.base.errors import BundleError, UsageError
from builder.cli import main
from builder.package.layer import EPOCH
from builder.package.provenance import BUILD_TYPE, ENVELOPE, JOIN_TYPE, STATEMENT, Material, statement_json
from builder.release.bundle_check import check_bundle, sign_bundle
from builder.release.statement import open_envelope
from tests.support.needs import needs
from tests.support.results import printed

FILES = {
    "layer/lib/libmodel.so": b"\x7fELF library",
    "layer/model/manifest.json": b'{"model": {"name": "digits", "version": "2"}}',
    "layer.zip": b"PK",
    "manifest.json": b'{"model": {"name": "digits", "version": "2"}}',
    "sbom.cdx.json": b"{}",
    "NOTICE": b"thanks",
    "model.h": b"/* */",
}


def write_keys(folder: Path, name: str, key: Any = None) -> tuple[Path, Path]:
    """A new pair of keys: the files of the private and the public one."""
    key = key or Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_keys(tmp_path_factory.mktemp("keys"), "ours")


def make_bundle(folder: Path, manifest: bytes = FILES["manifest.json"]) -> Path:
    for name, data in (FILES | {"manifest.json": manifest}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    text = statement_json(
        folder,
        build_type=BUILD_TYPE,
        external={"model": "model.toml", "target": "x86_64", "package": "zip"},
        internal={},
        materials=[Material("model.toml", {"sha256": "1" * 64})],
        builder="coldforge:host",
        versions={"zig": "0"},
        environment={},
    )
    (folder / STATEMENT).write_text(text)
    return folder


@pytest.fixture
def bundle(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    """A signed bundle."""
    folder = make_bundle(tmp_path / "bundle")
    sign_bundle(folder, keys[0])
    return folder


def test_a_bundle_as_it_was_built(bundle: Path, keys: tuple[Path, Path]) -> None:
    done = check_bundle(bundle, keys[1])
    assert set(done.subjects) == set(FILES)
    assert len(done.key) == 64
    assert check_bundle(bundle).signers == (done.key,)


@pytest.mark.parametrize("name", [*FILES, STATEMENT, ENVELOPE])
def test_a_file_with_one_other_byte_is_named(bundle: Path, keys: tuple[Path, Path], name: str) -> None:
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    with pytest.raises(BundleError, match=name.replace(".", r"\.")):
        check_bundle(bundle, keys[1])


@pytest.mark.parametrize("name", [*FILES, STATEMENT, ENVELOPE])
def test_a_file_that_is_gone_or_a_link_is_named(bundle: Path, keys: tuple[Path, Path], name: str) -> None:
    elsewhere = bundle.parent / "elsewhere"
    (bundle / name).rename(elsewhere)
    with pytest.raises(BundleError, match=name.replace(".", r"\.")):
        check_bundle(bundle, keys[1])
    (bundle / name).symlink_to(elsewhere)
    with pytest.raises(BundleError, match=name.replace(".", r"\.")):
        check_bundle(bundle, keys[1])


def test_a_folder_that_is_a_link_is_no_part_of_a_bundle(bundle: Path) -> None:
    shutil.move(bundle / "layer" / "lib", bundle.parent / "lib")
    (bundle / "layer" / "lib").symlink_to(bundle.parent / "lib")
    with pytest.raises(BundleError, match=r"libmodel\.so, which is missing or not a regular file"):
        check_bundle(bundle)


@pytest.mark.parametrize("name", ["layer/lib/other.so", "layer/bin/x_test", "other.weights", "README", ".x", "wasm"])
def test_a_file_more_is_refused(bundle: Path, name: str) -> None:
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_bytes(b"")
    with pytest.raises(BundleError, match=f"{name} is in the bundle, but provenance.json does not name it"):
        check_bundle(bundle)


def test_what_other_commands_made_of_it_later_is_said_and_left(bundle: Path) -> None:
    (bundle / "digits_test").write_bytes(b"")
    (bundle / "wasm").mkdir()
    (bundle / "wasm" / "model.wasm").write_bytes(b"")
    assert check_bundle(bundle).beside == ("digits_test", "wasm/model.wasm")


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"), "_type is"),
        (lambda s: s.update(predicateType="x"), "predicateType is 'x'"),
        (lambda s: s["predicate"]["buildDefinition"].update(buildType="make"), "buildType is 'make'"),
        (lambda s: s["subject"].pop(0), "it says nothing of NOTICE"),
        (lambda s: s["subject"].append(s["subject"][0]), "NOTICE stands twice"),
        (lambda s: s["subject"][0].update(name="../NOTICE"), "no file of a bundle"),
        (lambda s: s["subject"][0].update(name="/etc/passwd"), "no file of a bundle"),
        (lambda s: s["subject"][0].update(name="a//b"), "no file of a bundle"),
        (lambda s: s["subject"][0].update(name=3), "no file of a bundle"),
        (lambda s: s["subject"][0].update(digest={"sha256": "ab"}), "NOTICE has no SHA-256"),
        (lambda s: s["subject"][0].update(digest={"md5": "ab"}), "KeyError"),
        (lambda s: s.update(subject="NOTICE"), "TypeError"),
        (lambda s: s.update(predicate=[]), "TypeError"),
        (lambda s: s["predicate"].pop("runDetails"), "KeyError"),
        (lambda s: s["predicate"]["buildDefinition"].update(resolvedDependencies=[{"name": 1}]), "an input is called"),
        (lambda s: s["predicate"]["buildDefinition"].update(externalParameters={}), "KeyError"),
        (lambda s: s["predicate"]["buildDefinition"].update(internalParameters=[]), "AttributeError"),
        (lambda s: s["predicate"]["buildDefinition"].update(internalParameters={EPOCH: "0"}), "its parameters are"),
        (lambda s: s["predicate"]["buildDefinition"]["externalParameters"].update(model=[]), "what it was built from"),
        (lambda s: s["predicate"]["buildDefinition"].update(buildType=JOIN_TYPE), "KeyError"),
        (
            lambda s: s["predicate"]["buildDefinition"].update(
                buildType=JOIN_TYPE, externalParameters={"target": "x86_64", "models": ["../digits"]}
            ),
            "of several models and does not name them",
        ),
    ],
)
def test_a_statement_of_another_form_is_refused(tmp_path: Path, change: Change, says: str) -> None:
    folder = make_bundle(tmp_path)
    statement = json.loads((folder / STATEMENT).read_text())
    change(statement)
    (folder / STATEMENT).write_text(json.dumps(statement))
    with pytest.raises(BundleError, match=f"provenance.json is not a bundle's statement.*{says}"):
        check_bundle(folder)


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000 + "a", "a\0b", "\ud800", ".", "layer", "NOTICE/a"])
def test_a_name_that_no_file_can_have_is_of_none(tmp_path: Path, name: str) -> None:
    folder = make_bundle(tmp_path)
    statement = json.loads((folder / STATEMENT).read_text())
    statement["subject"].append({"name": name, "digest": {"sha256": "0" * 64}})
    (folder / STATEMENT).write_text(json.dumps(statement))
    with pytest.raises(BundleError, match="missing or not a regular file"):
        check_bundle(folder)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([STATEMENT, ENVELOPE]), st.integers(0), st.binary(max_size=8), st.integers(0, 8))
def test_no_other_bytes_of_the_statement_or_envelope_pass(
    bundle: Path, keys: tuple[Path, Path], name: str, place: int, new: bytes, gone: int
) -> None:
    before = (bundle / name).read_bytes()
    at = place % len(before)
    after = before[:at] + new + before[at + gone :]
    (bundle / name).write_bytes(after)
    try:
        passed = check_bundle(bundle, keys[1])
    except BundleError:
        passed = None
    finally:
        (bundle / name).write_bytes(before)
    # The envelope may be written in other words, and its key be called something else: the signature is over neither.
    assert passed is None or name == ENVELOPE or after == before
    if passed and name == ENVELOPE:
        assert open_envelope(after.decode())[0] == open_envelope(before.decode())[0]


def test_another_key_is_not_taken(bundle: Path, tmp_path: Path) -> None:
    _, theirs = write_keys(tmp_path, "theirs")
    with pytest.raises(BundleError, match=r"provenance\.intoto\.jsonl: none of its signatures is by theirs\.pub\.pem"):
        check_bundle(bundle, theirs)


def test_a_signature_that_names_another_key_shows_nothing(
    bundle: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    envelope = json.loads((bundle / ENVELOPE).read_text())
    ours = envelope["signatures"][0]["keyid"]
    private, _ = write_keys(tmp_path, "theirs")
    sign_bundle(bundle, private)
    theirs = json.loads((bundle / ENVELOPE).read_text())
    theirs["signatures"][0]["keyid"] = ours
    (bundle / ENVELOPE).write_text(json.dumps(theirs))
    with pytest.raises(BundleError, match="none of its signatures"):
        check_bundle(bundle, keys[1])
    theirs["signatures"] = []
    (bundle / ENVELOPE).write_text(json.dumps(theirs))
    with pytest.raises(BundleError, match="none of its signatures"):
        check_bundle(bundle, keys[1])


def test_a_bundle_that_is_not_signed_does_not_pass_with_a_key(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    folder = make_bundle(tmp_path)
    assert check_bundle(folder).signers == ()
    with pytest.raises(BundleError, match="nobody has signed this bundle"):
        check_bundle(folder, keys[1])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--model", "emotion"), "a bundle of model digits, not of emotion"),
        (("--model", "digits", "--version", "1"), "a bundle of version 2, not of 1"),
        (("--strict",), "no signature was checked"),
        (("--strict", "--key", "KEY"), None),
        (("--model", "digits", "--version", "2", "--strict", "--key", "KEY"), None),
        (("--model", "", "--key", "KEY"), "a bundle of model digits, not of"),
    ],
)
def test_what_must_be_in_it(
    bundle: Path,
    keys: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    says: str | None,
) -> None:
    command = ["verify-bundle", str(bundle), *(str(keys[1]) if word == "KEY" else word for word in options)]
    assert main(command) == (0 if says is None else BundleError.exit_code)
    assert (says or "digits 2") in "".join(capsys.readouterr())
    (bundle / "report.html").write_bytes(b"")
    assert (main(command) == 0) is (says is None and "--strict" not in options)


def test_a_layer_of_another_model_than_the_bundle(tmp_path: Path) -> None:
    folder = make_bundle(tmp_path, manifest=b'{"model": {"name": "emotion", "version": "2"}}')
    with pytest.raises(BundleError, match=r"manifest.json is of emotion 2, its layer of digits 2"):
        check_bundle(folder)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("-rf", "1"),
        ("a b", "1"),
        ("", "1"),
        ("a", ""),
        ("a", "\x1b[2J"),
        ("a\n", "1"),
        ("../a", "1"),
        (3, "1"),
        ("a", None),
    ],
)
def test_a_manifest_with_a_name_that_no_model_has(tmp_path: Path, name: Any, version: Any) -> None:
    folder = make_bundle(tmp_path, manifest=json.dumps({"model": {"name": name, "version": version}}).encode())
    with pytest.raises(BundleError, match=r"manifest\.json is not a bundle's manifest") as caught:
        check_bundle(folder)
    assert str(caught.value).isprintable()


def test_a_changed_bundle_is_not_signed(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    folder = make_bundle(tmp_path)
    (folder / "layer.zip").write_bytes(b"another")
    with pytest.raises(BundleError, match=r"layer\.zip is not the file"):
        sign_bundle(folder, keys[0])
    assert not (folder / ENVELOPE).exists()


def test_a_key_of_another_kind_is_refused(bundle: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = write_keys(tmp_path, "curve", generate_private_key(SECP256R1()))
    for wrong in (private, keys[1], tmp_path / "none", bundle / "NOTICE"):
        with pytest.raises(UsageError, match="no private ed25519 key"):
            sign_bundle(bundle, wrong)
    for wrong in (public, keys[0], tmp_path / "none", bundle / "NOTICE"):
        with pytest.raises(UsageError, match="no public ed25519 key"):
            check_bundle(bundle, wrong)


def test_openssl_takes_the_signature(bundle: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    """What is signed is DSSE's own form, written here once more."""
    payload = (bundle / STATEMENT).read_bytes()
    (signature,) = json.loads((bundle / ENVELOPE).read_text())["signatures"]
    (tmp_path / "signature").write_bytes(base64.b64decode(signature["sig"]))
    (tmp_path / "signed").write_bytes(b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload)
    command = [needs("openssl"), "pkeyutl", "-verify", "-pubin", "-inkey", keys[1], "-rawin"]
    subprocess.run([*command, "-in", tmp_path / "signed", "-sigfile", tmp_path / "signature"], check=True)


def test_the_commands(
    bundle: Path, keys: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sign", str(bundle), "--key", str(keys[0]), "--json"]) == 0
    assert printed("sign", capsys.readouterr().out) == {"file": str(bundle / ENVELOPE)}
    assert main(["verify-bundle", str(bundle), "--key", str(keys[1])]) == 0
    assert "The signature is right: key" in capsys.readouterr().out
    assert main(["verify-bundle", str(bundle)]) == 0
    assert "NOT CHECKED: it is signed by key" in capsys.readouterr().out
    assert main(["verify-bundle", str(bundle), "--json"]) == 0
    checked = printed("verify-bundle", capsys.readouterr().out)
    assert checked["signed_by"] is None
    assert len(checked["not_checked"]["signatures"]) == 1
    assert checked["files"].keys() >= {"NOTICE", "layer.zip"}
    (bundle / "NOTICE").write_bytes(b"no thanks")
    assert main(["verify-bundle", str(bundle), "--key", str(keys[1])]) == 25
    assert "NOTICE is not the file that provenance.json names" in capsys.readouterr().err
    assert main(["verify-bundle", str(tmp_path / "none")]) == 25
    assert main(["reproduce", str(bundle)]) == 25  # before anything is built
