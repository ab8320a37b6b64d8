"""Models from a web server: what it may do, and what then holds. The server is real, and so is its certificate."""

from __future__ import annotations

import hashlib
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from builder.base.errors import ColdforgeError, EnvironmentSetupError, ImportModelError
from builder.config import Source, TextSpec
from builder.config.address import parse_address
from builder.package.manifest import source_entry
from builder.pipeline.pack_bundle import list_model_materials
from builder.sources import Bounds, locate_model, locate_text_file
from tests.support.sources import QUICK, packed, site, spec_of, unchanged
from tests.support.website import Website, says, website

MODEL = bytes(range(256)) * 4000
SHA = hashlib.sha256(MODEL).hexdigest()
SECRET = "s3cr3t"


__all__ = ["site"]


@pytest.fixture(autouse=True)
def model(site: Website) -> None:
    site.files["/m.keras"] = MODEL


def located(folder: Path, url: str, sha256: str | None = SHA, bounds: Bounds = QUICK) -> Path:
    source = Source("keras", None, sha256=sha256, address=parse_address(url))
    return locate_model(spec_of(folder, source), folder / "cache", bounds=bounds)


def refused(folder: Path, url: str, sha256: str | None = SHA, bounds: Bounds = QUICK) -> ColdforgeError:
    """The error, which has nothing of the URL's query, and after which nothing is kept as a model."""
    with pytest.raises(ColdforgeError) as caught:
        located(folder, url, sha256, bounds)
    assert SECRET not in str(caught.value)
    assert not list((folder / "cache").glob("models/*/m.keras")) or sha256 is None
    return caught.value


class TestFetching:
    def test_a_file_is_fetched_once_and_kept_under_its_digest(self, site: Website, tmp_path: Path) -> None:
        path = located(tmp_path, f"{site.origin}/m.keras")
        assert path == tmp_path / "cache" / "models" / SHA / "m.keras"
        assert path.read_bytes() == MODEL
        with unchanged(tmp_path):
            assert located(tmp_path, "https://nowhere.invalid/m.keras") == path, "by its digest, wherever it was"
        assert site.paths() == ["/m.keras"]
        assert list((tmp_path / "cache/models/downloads").iterdir()) == []

    def test_a_spoilt_cache_is_fetched_again(self, site: Website, tmp_path: Path) -> None:
        located(tmp_path, f"{site.origin}/m.keras").write_bytes(b"spoilt")
        assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL

    def test_bytes_are_shown_as_they_come(self, site: Website, tmp_path: Path) -> None:
        shown: list[object] = []

        @contextmanager
        def show(what: str, total: int | None, done: int) -> Iterator[object]:
            shown.append((what, total, done))
            yield shown.append

        source = Source("keras", None, sha256=SHA, address=parse_address(f"{site.origin}/m.keras?token={SECRET}"))
        locate_model(spec_of(tmp_path, source), tmp_path / "cache", show, QUICK)  # type: ignore[arg-type]
        assert shown[0] == (f"{site.origin}/m.keras", len(MODEL), 0)
        assert sum(count for count in shown[1:] if isinstance(count, int)) == len(MODEL)

    def test_the_line_that_pins_it_is_said(self, site: Website, tmp_path: Path) -> None:
        said = str(refused(tmp_path, f"{site.origin}/m.keras?X-Amz-Signature={SECRET}", None))
        assert f'sha256 = "{SHA}"' in said
        assert "model.toml does not pin it" in said


class TestBreakingOff:
    def test_it_goes_on_where_it_ended(self, site: Website, tmp_path: Path) -> None:
        site.cuts = [300_000, 300_000]
        assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL
        ranges = [asked.headers.get("range") for asked in site.requests]
        assert ranges == [None, "bytes=300000-", "bytes=600000-"]
        assert site.requests[1].headers["if-range"].startswith('"')

    def test_in_a_later_run_too(self, site: Website, tmp_path: Path) -> None:
        site.cuts = [500_000, 0, 0]
        error = refused(tmp_path, f"{site.origin}/m.keras", bounds=Bounds(attempts=2, pause=0.01))
        assert isinstance(error, EnvironmentSetupError)
        assert "ended after 500,000 of 1,024,000 bytes" in str(error)
        assert "goes on where this one ended" in str(error)
        site.cuts = []
        assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL
        assert site.requests[-1].headers["range"] == "bytes=500000-"

    def test_another_file_meanwhile_is_fetched_from_its_start(self, site: Website, tmp_path: Path) -> None:
        site.cuts = [500_000, 0, 0]
        refused(tmp_path, f"{site.origin}/m.keras", bounds=Bounds(attempts=2, pause=0.01))
        site.files["/m.keras"], site.cuts = MODEL[::-1], []
        digest = hashlib.sha256(MODEL[::-1]).hexdigest()
        assert located(tmp_path, f"{site.origin}/m.keras", digest).read_bytes() == MODEL[::-1]

    def test_without_a_mark_it_begins_anew(self, site: Website, tmp_path: Path) -> None:
        site.tag, site.cuts = False, [500_000]
        assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL
        assert [asked.headers.get("range") for asked in site.requests] == [None, None]

    def test_all_bytes_are_there_and_the_process_ended_then(self, site: Website, tmp_path: Path) -> None:
        site.cuts = [500_000, 0, 0]
        refused(tmp_path, f"{site.origin}/m.keras", bounds=Bounds(attempts=2, pause=0.01))
        (part,) = (tmp_path / "cache/models/downloads").glob("*[!k]")
        part.write_bytes(MODEL)
        assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL
        assert site.requests[-1].headers["range"] == f"bytes={len(MODEL)}-"

    def test_a_server_that_is_busy_is_asked_again(self, site: Website, tmp_path: Path) -> None:
        answers = [says(503), says(429), says(200, MODEL)]
        site.answers["/m.keras"] = lambda to: answers.pop(0)(to)
        assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL

    def test_a_server_that_says_nothing(self, site: Website, tmp_path: Path) -> None:
        site.answers["/m.keras"] = lambda to: time.sleep(1)
        error = refused(tmp_path, f"{site.origin}/m.keras", bounds=Bounds(attempts=2, pause=0.01, silence=0.05))
        assert "localhost did not answer in time" in str(error)

    def test_bytes_that_come_one_by_one(self, site: Website, tmp_path: Path) -> None:
        def drip(to: BaseHTTPRequestHandler) -> None:
            to.send_response(200)
            to.send_header("Content-Length", "1000000")
            to.end_headers()
            for _ in range(200):
                to.wfile.write(b"x")
                time.sleep(0.01)

        site.answers["/m.keras"] = drip
        slow = Bounds(attempts=2, pause=0.01, slowest=10_000, window=0.05)
        assert "fewer than 10,000 bytes a second" in str(refused(tmp_path, f"{site.origin}/m.keras", bounds=slow))

    def test_by_way_of_a_proxy(self, site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.delenv("no_proxy", raising=False)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:{SECRET}@127.0.0.1:{listener.getsockname()[1]}")
            asked: list[bytes] = []

            def relay() -> None:
                client, _ = listener.accept()
                asked.append(client.recv(4096))
                host = socket.create_connection(("127.0.0.1", site.port))
                client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                with client, host:
                    while ready := select.select([client, host], [], [], 5)[0]:
                        data = ready[0].recv(65536)
                        if not data:
                            return
                        (host if ready[0] is client else client).sendall(data)

            thread = threading.Thread(target=relay, daemon=True)
            thread.start()
            assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL
            thread.join(5)
        assert asked[0].startswith(f"CONNECT localhost:{site.port} HTTP/1.".encode())
        assert b"Proxy-Authorization: Basic" in asked[0]
        assert "proxy-authorization" not in site.requests[0].headers

    def test_nobody_listens(self, tmp_path: Path) -> None:
        error = refused(tmp_path, f"https://127.0.0.1:9/m.keras?{SECRET}", bounds=Bounds(attempts=2, pause=0.01))
        assert isinstance(error, EnvironmentSetupError)
        assert "Connection refused" in str(error)


class TestRefusing:
    def test_a_length_that_is_no_number_is_not_believed(self, site: Website, tmp_path: Path) -> None:
        def answer(to: BaseHTTPRequestHandler) -> None:
            to.send_response(200)
            to.send_header("Content-Length", "9" * 6000)
            to.end_headers()
            to.wfile.write(MODEL)

        site.answers["/m.keras"] = answer
        assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL

    def test_another_part_than_was_asked_for(self, site: Website, tmp_path: Path) -> None:
        site.cuts = [500_000, 0, 0]
        refused(tmp_path, f"{site.origin}/m.keras", bounds=Bounds(attempts=2, pause=0.01))
        site.answers["/m.keras"] = says(206, MODEL[:10], Content_Range=f"bytes 0-9/{len(MODEL)}")
        assert "another part of the file than was asked for" in str(refused(tmp_path, f"{site.origin}/m.keras"))

    def test_a_cache_that_cannot_be(self, site: Website, tmp_path: Path) -> None:
        (tmp_path / "cache").touch()
        error = refused(tmp_path, f"{site.origin}/m.keras")
        assert isinstance(error, EnvironmentSetupError)
        assert "cannot be written: Not a directory" in str(error)

    def test_another_file_than_the_pinned_one(self, site: Website, tmp_path: Path) -> None:
        error = refused(tmp_path, f"{site.origin}/m.keras", "0" * 64)
        assert isinstance(error, ImportModelError)
        assert SHA in str(error)
        assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []

    @pytest.mark.parametrize("says_length", [True, False])
    def test_more_than_is_allowed(self, site: Website, tmp_path: Path, says_length: bool) -> None:
        def endless(to: BaseHTTPRequestHandler) -> None:
            to.send_response(200)
            to.end_headers()
            for _ in range(1000):
                to.wfile.write(bytes(10_000))

        if not says_length:
            site.answers["/m.keras"] = endless
        error = refused(tmp_path, f"{site.origin}/m.keras", bounds=Bounds(bytes=100_000))
        assert "has more than 100,000 bytes" in str(error)
        assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []

    @pytest.mark.parametrize(
        ("status", "kind", "says_what"),
        [
            (401, EnvironmentSetupError, r"~/\.netrc"),
            (403, EnvironmentSetupError, "ask its owner"),
            (404, ImportModelError, "is not there"),
            (400, ImportModelError, "answers with status 400"),
        ],
    )
    def test_an_answer_that_is_no_file(
        self, site: Website, tmp_path: Path, status: int, kind: type[ColdforgeError], says_what: str
    ) -> None:
        site.answers["/m.keras"] = says(status, SECRET.encode())
        error = refused(tmp_path, f"{site.origin}/m.keras?token={SECRET}")
        assert isinstance(error, kind)
        with pytest.raises(kind, match=says_what):
            raise error
        assert len(site.requests) == 1, "asking again would not help"

    def test_a_certificate_of_another_authority(
        self, site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SSL_CERT_FILE")
        assert "certificate of localhost is not trusted here" in str(refused(tmp_path, f"{site.origin}/m.keras"))
        assert site.requests == []

    @pytest.mark.parametrize("target", ["http://localhost:9/m.keras", "ftp://localhost/m.keras", "file:///etc/passwd"])
    def test_a_redirect_to_what_is_not_encrypted(self, site: Website, tmp_path: Path, target: str) -> None:
        site.answers["/old"] = says(302, Location=f"{target}?{SECRET}")
        assert "not encrypted" in str(refused(tmp_path, f"{site.origin}/old"))

    def test_the_body_of_a_redirect_is_not_read(self, site: Website, tmp_path: Path) -> None:
        def moved(to: BaseHTTPRequestHandler) -> None:
            to.send_response(302)
            to.send_header("Location", "/m.keras")
            to.send_header("Content-Length", "9" * 20)
            to.end_headers()

        site.answers["/old"] = moved
        source = Source("keras", None, sha256=SHA, address=parse_address(f"{site.origin}/old"))
        assert locate_model(spec_of(tmp_path, source), tmp_path / "cache", bounds=QUICK).read_bytes() == MODEL

    @pytest.mark.parametrize("target", ["https://[::1/", "https://localhost:99999/"])
    def test_a_redirect_to_no_address(self, site: Website, tmp_path: Path, target: str) -> None:
        site.answers["/old"] = says(302, Location=target)
        assert isinstance(refused(tmp_path, f"{site.origin}/old"), EnvironmentSetupError)

    def test_redirects_without_end(self, site: Website, tmp_path: Path) -> None:
        site.answers["/round"] = says(302, Location="/round")
        assert "redirects for" in str(refused(tmp_path, f"{site.origin}/round"))


class TestCredentials:
    def test_of_netrc_go_to_their_host_alone(self, site: Website, tmp_path: Path) -> None:
        (tmp_path / "netrc").write_text(f"machine localhost login me password {SECRET}\n")
        with website() as other:
            other.files["/m.keras"] = MODEL
            site.answers["/moved"] = says(302, Location="/m.keras")
            site.answers["/away"] = says(307, Location=f"{other.origin}/m.keras")
            located(tmp_path / "a", f"{site.origin}/moved")
            located(tmp_path / "b", f"{site.origin}/away")
            assert [asked.headers.get("authorization", "")[:5] for asked in site.requests] == ["Basic"] * 3
            assert ["authorization" in asked.headers for asked in other.requests] == [False]

    def test_a_default_of_netrc_is_for_no_host_in_particular(self, site: Website, tmp_path: Path) -> None:
        (tmp_path / "netrc").write_text(f"default login me password {SECRET}\n")
        located(tmp_path, f"{site.origin}/m.keras")
        assert "authorization" not in site.requests[0].headers

    def test_a_netrc_that_is_none(self, site: Website, tmp_path: Path) -> None:
        (tmp_path / "netrc").write_text(f"machine localhost login me {SECRET}\n")
        assert "cannot be read as a .netrc" in str(refused(tmp_path, f"{site.origin}/m.keras"))

    def test_a_query_is_sent_and_kept_nowhere(self, site: Website, tmp_path: Path) -> None:
        path = located(tmp_path, f"{site.origin}/m.keras?X-Amz-Signature={SECRET}")
        assert site.paths() == [f"/m.keras?X-Amz-Signature={SECRET}"]
        kept = [file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file()]
        assert kept == [MODEL]
        assert path.read_bytes() == MODEL


class TestArchives:
    def test_a_saved_model_is_unpacked_once(self, site: Website, tmp_path: Path) -> None:
        archive = packed({"top/saved_model.pb": b"graph", "top/variables/variables.index": b"index"})
        site.files["/m.tar.gz"] = archive
        sha = hashlib.sha256(archive).hexdigest()
        source = Source("saved_model", None, sha256=sha, address=parse_address(f"{site.origin}/m.tar.gz"))
        spec = spec_of(tmp_path, source)
        found = locate_model(spec, tmp_path / "cache")
        assert found == tmp_path / "cache" / "models" / sha / "unpacked" / "top"
        (found / "variables" / "variables.index").write_bytes(b"spoilt")
        assert locate_model(spec, tmp_path / "cache") == found
        assert (found / "variables" / "variables.index").read_bytes() == b"index"
        assert len(site.requests) == 1

    def test_one_file_of_it(self, site: Website, tmp_path: Path) -> None:
        archive = packed({"a.keras": b"a", "sub/b.keras": b"b"})
        site.files["/m.tgz"] = archive
        sha = hashlib.sha256(archive).hexdigest()
        source = Source("keras", None, None, "sub/b.keras", sha, address=parse_address(f"{site.origin}/m.tgz"))
        assert locate_model(spec_of(tmp_path, source), tmp_path / "cache").read_bytes() == b"b"

    def test_a_tokenizer_of_it(self, site: Website, tmp_path: Path) -> None:
        site.files["/m.tgz"] = packed({"sub/b.keras": b"b", "sub/tokenizer.json": b"{}"})
        sha = hashlib.sha256(site.files["/m.tgz"]).hexdigest()
        source = Source("keras", None, None, "sub/b.keras", sha, address=parse_address(f"{site.origin}/m.tgz"))

        def found(file: str, pinned: str | None = None) -> bytes:
            text = TextSpec(None, inside=("tokenizer", file), sha256=pinned)
            located = locate_text_file(replace(spec_of(tmp_path, source), text=text), tmp_path / "cache").text
            assert located
            assert located.tokenizer
            return located.tokenizer.read_bytes()

        assert found("sub/tokenizer.json") == found("sub/tokenizer.json", hashlib.sha256(b"{}").hexdigest()) == b"{}"
        for file in ("tokenizer.json", "../../tokenizer.json", "sub", "/etc/passwd"):
            with pytest.raises(ImportModelError, match="has no"):
                found(file)
        with pytest.raises(ImportModelError, match=r"\[text\]\.sha256  0{64}"):
            found("sub/tokenizer.json", "0" * 64)

    def test_one_file_has_nothing_beside_it(self, site: Website, tmp_path: Path) -> None:
        site.files["/m.keras"] = MODEL
        sha = hashlib.sha256(MODEL).hexdigest()
        source = Source("keras", None, sha256=sha, address=parse_address(f"{site.origin}/m.keras"))
        spec = replace(spec_of(tmp_path, source), text=TextSpec(None, inside=("vocabulary", "vocab.txt")))
        with pytest.raises(ImportModelError, match=r"is one file, and nothing else comes with it"):
            locate_text_file(spec, tmp_path / "cache")


def test_what_a_bundle_says_of_its_model_is_where_it_was_and_what_it_is(site: Website, tmp_path: Path) -> None:
    archive = packed({"m/saved_model.pb": b"graph"})
    site.files["/m.tgz"] = archive
    sha = hashlib.sha256(archive).hexdigest()
    address = parse_address(f"{site.origin}/m.tgz?X-Amz-Signature={SECRET}")
    source = Source("saved_model", None, sha256=sha, address=address)
    spec, cache = spec_of(tmp_path, source), tmp_path / "cache"
    packed_in, model = (
        material.to_dict() for material in list_model_materials(source, locate_model(spec, cache), cache)
    )
    assert packed_in["uri"] == f"{site.origin}/m.tgz"
    assert packed_in["digest"] == {"sha256": sha}
    assert (model["name"], "uri" in model, [*model["digest"]]) == ("trained model m", False, ["dirHash"])
    assert source_entry(spec, {}) == {"format": "saved_model", "uri": f"{site.origin}/m.tgz"}
    plain = replace(source, format="keras", sha256=SHA, address=parse_address(f"{site.origin}/m.keras?t={SECRET}"))
    (only,) = list_model_materials(plain, locate_model(spec_of(tmp_path, plain), cache), cache)
    assert (only.uri, only.digest) == (f"{site.origin}/m.keras", {"sha256": SHA})


def test_the_marks_of_a_download_are_json(site: Website, tmp_path: Path) -> None:
    site.cuts = [500_000, 0, 0]
    refused(tmp_path, f"{site.origin}/m.keras", bounds=Bounds(attempts=2, pause=0.01))
    (mark,) = (tmp_path / "cache/models/downloads").glob("*.mark")
    assert json.loads(mark.read_text()) == f'"{hashlib.md5(MODEL).hexdigest()}"'
    mark.write_text("no mark")
    assert located(tmp_path, f"{site.origin}/m.keras").read_bytes() == MODEL
