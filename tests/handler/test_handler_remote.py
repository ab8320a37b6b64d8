"""Pictures by reference: what may be fetched, and what a host may do without harm. The https server is real."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handler import errors, remote, storage
from handler.budget import RequestLimits
from handler.description import Description, parse_description
from handler.protocols.predict import parse_event as parse_request
from handler.remote import fetch_files, is_public
from handler.request import File, Reference, Request
from handler.sources import Sources
from tests.support import abi_library, needs, s3

TLS = Path(__file__).parents[1] / "data" / "tls"
FILE = b"not a picture, but nobody looks here"
LIMITS = RequestLimits(encoded=100_000)
MODEL: Description = parse_description(json.dumps(abi_library.picture_description()))
LATER_MS = 15_000

Answer = Callable[[ssl.SSLSocket], None]


@dataclass
class Host:
    """An https server on 127.0.0.1 that answers each connection with ``answer``, and keeps what was asked."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    answer: Answer = lambda _: None

    def url(self, path: str = "/a.jpg") -> str:
        return f"https://localhost:{self.port}{path}"

    @property
    def sources(self) -> Sources:
        return Sources.from_environment({"COLDFORGE_URL_SOURCES": f"localhost:{self.port}, 127.0.0.0/8"})

    def get(self, limits: RequestLimits = LIMITS, remaining_ms: int = LATER_MS) -> bytes:
        return got(self.url(), self.sources, limits, remaining_ms)


def got(url: str, sources: Sources, limits: RequestLimits = LIMITS, remaining_ms: int = LATER_MS) -> bytes:
    request = fetch_files(Request((Reference("url", url, '"image"'),), {}), sources, limits, remaining_ms)
    (picture,) = request.images
    assert isinstance(picture, File)
    return picture.data


def says(*parts: bytes) -> Answer:
    def answer(connection: ssl.SSLSocket) -> None:
        for part in parts:
            connection.sendall(part)

    return answer


def ok(data: bytes) -> Answer:
    return says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data), data)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))
    remote._make_ssl_context.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    served = Host(listener.getsockname()[1], answer=ok(FILE))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as connection:
                    asked = b""
                    while b"\r\n\r\n" not in asked:
                        asked += connection.recv(4096)
                    served.asked.append(asked.decode())
                    served.answer(connection)
            except OSError:
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield served
    listener.close()
    remote._make_ssl_context.cache_clear()


def test_an_image_is_fetched_over_https(host: Host) -> None:
    url = host.url("/a%20b.jpg?X-Amz-Signature=1&b")
    assert got(url, host.sources) == FILE
    assert host.asked[0].startswith("GET /a%20b.jpg?X-Amz-Signature=1&b HTTP/1.1\r\n")
    assert f"Host: localhost:{host.port}\r\n" in host.asked[0]


def test_several_keep_their_order_beside_those_that_are_here(host: Host) -> None:
    def by_name(connection: ssl.SSLSocket) -> None:
        name = host.asked[-1].split()[1].encode()
        time.sleep(0.05 if name == b"/0" else 0)
        ok(name)(connection)

    host.answer = by_name
    images = [{"url": host.url(f"/{i}")} for i in range(5)]
    event = {"images": [*images[:2], base64.b64encode(FILE).decode(), *images[2:]]}
    request = parse_request(event, MODEL, LIMITS)
    done = fetch_files(request, host.sources, LIMITS, LATER_MS)
    assert [p.data for p in done.images if isinstance(p, File)] == [b"/0", b"/1", FILE, b"/2", b"/3", b"/4"]


def test_a_server_with_another_certificate_is_not_believed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    remote._make_ssl_context.cache_clear()
    with pytest.raises(errors.SourceUnavailableError, match=r'^"image" names a file that cannot be fetched$'):
        host.get()
    assert host.asked == []


def test_a_redirect_is_not_followed(host: Host) -> None:
    host.answer = says(b"HTTP/1.1 302 Found\r\nLocation: https://localhost/b\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(errors.SourceUnavailableError, match="status 302"):
        host.get()
    assert len(host.asked) == 1


def endless(connection: ssl.SSLSocket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(bytes(4096))


def test_too_many_bytes_are_not_read_to_the_end(host: Host) -> None:
    host.answer = endless
    with pytest.raises(errors.TooLargeError, match='"image" names a file of more than 100,000 bytes'):
        host.get()


def test_many_images_together_have_a_limit(host: Host) -> None:
    host.answer = ok(bytes(90_000))
    references = tuple(Reference("url", host.url(), f"image {i}") for i in range(6))
    with pytest.raises(errors.TooLargeError, match="together"):
        fetch_files(Request(references, {}), host.sources, LIMITS, LATER_MS)


def drip(*head: bytes) -> Answer:
    """Bytes so slowly that no single wait is long."""

    def answer(connection: ssl.SSLSocket) -> None:
        says(*head)(connection)
        while True:
            connection.sendall(b"a")
            time.sleep(0.02)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        drip(),
        drip(b"HTTP/1.1 200 OK\r\nX: "),
        drip(b"HTTP/1.1 200 OK\r\n\r\n"),
        lambda connection: connection.recv(1),
    ],
    ids=["before the head", "in the head", "in the body", "silence"],
)
def test_a_slow_host_does_not_use_up_the_call(host: Host, answer: Answer) -> None:
    host.answer = answer
    with pytest.raises(errors.SourceUnavailableError, match="takes too long"):
        host.get(remaining_ms=remote.RESERVE_MS + 300)


SILENT_RESOLVER = """
import ctypes, json, os, pathlib, socket, subprocess, sys
# A network and a mount table of this process' own, whose only name server never answers.
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
from handler import errors, remote
from handler.sources import Sources
from tests.handler.test_handler_remote import got
try:
    got("https://pictures.example/a.jpg", Sources(hosts=("pictures.example",)), remaining_ms=remote.RESERVE_MS + 300)
except errors.SourceUnavailableError as error:
    print(error.message)
server.settimeout(10)
print(server.recv(512)[13:21].decode())  # the question
"""


def test_a_slow_name_server_does_not_use_up_the_call(tmp_path: Path) -> None:
    """The C library would wait for it for five minutes: the answer comes before, and so does the process' end."""
    for tool, package in (("unshare", "util-linux"), ("mount", "mount"), ("ip", "iproute2")):
        needs.needs(tool, package)
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    (tmp_path / "nsswitch.conf").write_text("hosts: files dns\n")
    enter = ["unshare", "--map-root-user", "--mount", "--net"]
    if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode:
        needs.missing("this machine lets no process have a network and mounts of its own")
    mounts = [f"mount --bind {tmp_path}/{name} /etc/{name}" for name in ("resolv.conf", "nsswitch.conf")]
    script = " && ".join([*mounts, 'exec "$@"'])
    done = subprocess.run(
        [*enter, "sh", "-c", script, "sh", sys.executable, "-c", SILENT_RESOLVER],
        env=os.environ | {"RES_OPTIONS": "timeout:30 attempts:5"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ['"image" names a file that takes too long to fetch', "pictures"], done.stderr


def test_nothing_is_begun_when_no_time_is_left(host: Host) -> None:
    with pytest.raises(errors.SourceUnavailableError, match="takes too long"):
        host.get(remaining_ms=remote.RESERVE_MS)
    assert host.asked == []


@pytest.mark.parametrize(
    "answer",
    [says(b""), says(b"hello\r\n\r\n"), says(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000), says(b"\xff" * 100)],
)
def test_nonsense_is_an_error(host: Host, answer: Answer) -> None:
    host.answer = answer
    with pytest.raises(errors.SourceUnavailableError):
        host.get()


def test_half_an_image_is_an_error(host: Host) -> None:
    host.answer = says(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", bytes(999))
    with pytest.raises(errors.SourceUnavailableError, match="broke off"):
        host.get()


def test_a_host_that_leads_inside_is_refused(host: Host) -> None:
    """Listed by name, but its address is this machine's own."""
    listed = Sources.from_environment({"COLDFORGE_URL_SOURCES": f"localhost:{host.port}"})
    with pytest.raises(errors.SourceNotAllowedError):
        got(host.url(), listed)
    assert host.asked == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "169.254.170.2", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "239.255.255.250",
        "240.0.0.1", "255.255.255.255",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.IPv4Address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "52.218.0.1", "172.32.0.1"])
def test_addresses_that_are(address: str) -> None:
    assert is_public(ipaddress.IPv4Address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/a", "https:///a", "https://", "", "ftp://localhost/", "file:///etc/passwd", "//localhost/a",
        "https://me@localhost/a", "https://localhost\\@evil/a", "https://localhost/a b", "https://localhost/\r\nX: 1",
        "https://localhost:99999/", "https://localhost:x/", "https://[::1/", "https://löcalhost/",
        "https://a/" + "a" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_https_url(url: str) -> None:
    with pytest.raises(errors.WrongTypeError, match='"image" must be a URL like'):
        got(url, Sources(hosts=("localhost",)))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 64 + ".example"])
def test_a_host_that_has_no_address(host: str) -> None:
    with pytest.raises(errors.SourceUnavailableError):
        got(f"https://{host}/a.jpg", Sources(hosts=(host,)))


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/a", "https://localhost.evil.example/", "https://notlocalhost/", "https://localhost:444/",
        "https://127.0.0.1/", "https://2130706433/", "https://[::1]/", "https://localhost./",
    ],
)  # fmt: skip
def test_hosts_that_are_not_listed(url: str) -> None:
    with pytest.raises(errors.SourceNotAllowedError):
        got(url, Sources(hosts=("localhost",)))


def test_a_star_stands_for_subdomains_only() -> None:
    sources = Sources.from_environment({"COLDFORGE_URL_SOURCES": "*.example.com,a.org:8443"})
    assert sources.allow_host("a.example.com", 443)
    assert sources.allow_host("a.b.example.com", 443)
    assert sources.allow_host("a.org", 8443)
    for host, port in (("example.com", 443), ("badexample.com", 443), ("a.example.com", 8443), ("a.org", 443)):
        assert not sources.allow_host(host, port)


def test_without_being_told_nothing_is_fetched() -> None:
    for kind, address in (("s3", "s3://bucket/key"), ("url", "https://localhost/a")):
        with pytest.raises(errors.SourceNotAllowedError, match=r'"image" names .* may not read'):
            fetch_files(Request((Reference(kind, address, '"image"'),), {}), Sources(), LIMITS, LATER_MS)


@pytest.mark.parametrize(
    "address", ["s3://bucket", "s3://bucket/", "s3:///key", "bucket/key", "https://bucket/key", ""]
)
def test_what_is_no_object(address: str) -> None:
    with pytest.raises(errors.WrongTypeError, match="s3://bucket/key"):
        fetch_files(Request((Reference("s3", address, "it"),), {}), Sources(s3=("",)), LIMITS, LATER_MS)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[s3.Bucket]:
    with s3.serving() as served:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(storage, "_clients", {})
        yield served


def objects(*keys: str, limits: RequestLimits = LIMITS) -> list[bytes]:
    references = tuple(Reference("s3", f"s3://photos/{key}", f"image {key}") for key in keys)
    pictures = fetch_files(Request(references, {}), Sources(s3=("photos/",)), limits, LATER_MS).images
    return [picture.data for picture in pictures if isinstance(picture, File)]


def test_objects_are_fetched_at_once_and_keep_their_order(bucket: s3.Bucket) -> None:
    bucket.objects = {f"photos/{index}": b"picture %d" % index for index in range(20)}
    assert objects(*map(str, range(20))) == list(bucket.objects.values())


@pytest.mark.parametrize("status", [403, 404])
def test_an_object_that_may_not_be_read(bucket: s3.Bucket, status: int) -> None:
    bucket.failing["photos/a"] = [status]
    with pytest.raises(errors.SourceUnavailableError, match="image a names an object that does not exist or may not"):
        objects("a")


def test_s3_in_trouble_is_not_the_requests_fault(bucket: s3.Bucket) -> None:
    bucket.objects["photos/a"] = FILE
    bucket.failing["photos/a"] = [503] * storage.ATTEMPTS
    with pytest.raises(errors.StorageUnavailableError, match="image a names an object that S3 did not deliver"):
        objects("a")
    assert objects("a") == [FILE]


def test_too_large_an_object_is_not_read_to_the_end(bucket: s3.Bucket) -> None:
    bucket.objects["photos/a"] = bytes(LIMITS.encoded + 1)
    with pytest.raises(errors.TooLargeError, match="image a names a file of more than 100,000 bytes"):
        objects("a")


@pytest.mark.parametrize("seconds", [0, 2.9, 3, 5.9, 6, 15, 20, 900])
def test_a_silent_s3_does_not_use_up_the_call(bucket: s3.Bucket, seconds: float) -> None:
    config = storage.get_client(seconds).meta.config
    assert config.retries["total_max_attempts"] * config.read_timeout <= max(seconds, storage.ATTEMPTS)
    assert config.connect_timeout == config.read_timeout


def test_objects_below_a_prefix() -> None:
    sources = Sources.from_environment({"COLDFORGE_S3_SOURCES": " photos/in/ , other/ "})
    assert sources.allow_object("photos", "in/a.jpg")
    assert sources.allow_object("other", "x")
    for bucket, key in (("photos", "inside/a"), ("photos", "a"), ("photos2", "in/a"), ("other2", "x")):
        assert not sources.allow_object(bucket, key)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COLDFORGE_S3_SOURCES", "bucket"),
        ("COLDFORGE_S3_SOURCES", "/key"),
        ("COLDFORGE_URL_SOURCES", "https://a.org"),
        ("COLDFORGE_URL_SOURCES", "a.org/path"),
        ("COLDFORGE_URL_SOURCES", "10.0.0.1/8"),
        ("COLDFORGE_URL_SOURCES", "*"),
        ("COLDFORGE_URL_SOURCES", "*.com"),
        ("COLDFORGE_URL_SOURCES", "a.*.com"),
        ("COLDFORGE_URL_SOURCES", "a.org:port"),
    ],
)
def test_wrong_settings_stop_the_start(name: str, value: str) -> None:
    with pytest.raises(errors.StartupError, match=name):
        Sources.from_environment({name: value})


@pytest.mark.parametrize(
    "value",
    [{}, {"s3": "s3://a/b", "url": "https://a/b"}, {"file": "/etc/passwd"}, {"s3": 1}, {"url": None}, {"url": []}],
)
def test_what_is_no_reference(value: object) -> None:
    with pytest.raises(errors.WrongTypeError, match='"image" must be base64, '):
        parse_request({"image": value}, MODEL, LIMITS)


def test_no_message_repeats_an_address(host: Host) -> None:
    host.answer = says(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    for sources in (host.sources, Sources()):
        with pytest.raises(errors.HandlerError) as caught:
            got(host.url("/a?X-Amz-Signature=secret"), sources)
        assert "secret" not in caught.value.message
        assert "localhost" not in caught.value.message


@given(st.one_of(st.text(), st.text(max_size=30).map(lambda text: f"https://{text}"), st.from_regex(r"s3://.*")))
def test_any_address_is_a_typed_error(address: str) -> None:
    for kind in ("s3", "url"):
        with pytest.raises(errors.HandlerError):
            fetch_files(Request((Reference(kind, address, "it"),), {}), Sources(), LIMITS, LATER_MS)
