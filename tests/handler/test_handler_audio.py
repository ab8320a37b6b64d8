"""From a recording's file to the windows a model takes, in real libraries with the real decoders."""

from __future__ import annotations

import base64
import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from handler import errors
from handler.audio import Windows, count_windows, open_decoders, read_audio_header, read_windows
from handler.budget import RequestLimits
from handler.description import AudioInput
from handler.errors import HandlerError
from tests.support import abi_library, sounds
from tests.support.http import Client
from tests.support.instrumented import DECODERS, OBJECTS

RATE, LENGTH, HOP = 8_000, 8, 4
TARGET = AudioInput("sound", RATE, LENGTH, HOP)
WHOLE = AudioInput("sound", RATE, 4_000, 4_000)
"""All of each recording here, in one window."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    folder = tmp_path_factory.mktemp("audio")
    sound = abi_library.sound_description(batch=2, length=LENGTH, hop=HOP, rate=RATE)
    return Client.of(folder, sound, limits=RequestLimits(items=50, recorded_seconds=60))


@pytest.fixture(scope="module")
def decoders(request: pytest.FixtureRequest) -> Any:
    """Those of a model, or those that test_sanitizers.py has watched."""
    if OBJECTS in os.environ:
        return open_decoders(str(Path(os.environ[OBJECTS]) / DECODERS))
    return request.getfixturevalue("client").server.find_model(None).decoders


def heard(decoders: Any, data: bytes, target: AudioInput = WHOLE, limits: RequestLimits | None = None) -> Windows:
    return read_windows(data, "it", target, limits or RequestLimits(), decoders)


def whole(decoders: Any, data: bytes) -> Any:
    """The samples of a recording that is shorter than a window."""
    samples, spans = heard(decoders, data)
    assert len(spans) == 1
    return np.frombuffer(samples, np.float32)[: round(spans[0][1] * RATE)]


def noise(frames: int, channels: int = 1) -> Any:
    return np.random.default_rng(frames).uniform(-1, 1, (frames, channels))


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("kind", sounds.KINDS)
def test_every_kind_of_wav_is_the_mean_of_its_channels(
    decoders: Any, kind: str, channels: int, extensible: bool
) -> None:
    values = noise(101, channels)
    data = sounds.wav(kind, values, RATE, extensible=extensible)
    bits = sounds.KINDS[kind][1]
    if kind == "f32":
        values = values.astype(np.float32).astype(float)
    elif kind != "f64":
        values = np.round(values * 2 ** (bits - 1)).clip(None, 2 ** (bits - 1) - 1) / 2 ** (bits - 1)
    assert np.abs(whole(decoders, data) - values.mean(axis=1)).max() <= 2**-24


TAG = b"ID3\4\0\0\0\0\0\1\0"


@pytest.mark.parametrize("name", sounds.FLAC)
def test_flac_is_decoded_to_the_bit(decoders: Any, name: str) -> None:
    data, values, rate = sounds.flac(name)
    found = np.frombuffer(heard(decoders, data, AudioInput("sound", rate, len(values), 1)).samples, np.float32)
    assert np.array_equal(found, values)
    unsaid = bytearray(data)
    unsaid[21:26] = bytes([unsaid[21] & 0xF0, 0, 0, 0, 0])  # a FLAC that was written to a pipe says 0 samples
    for recording in (bytes(unsaid), TAG + data):
        found = np.frombuffer(heard(decoders, recording, AudioInput("sound", rate, len(values), 1)).samples, np.float32)
        assert np.array_equal(found, values)


@pytest.mark.parametrize("name", sounds.MP3)
def test_mp3_is_decoded_as_libsndfile_does(decoders: Any, name: str) -> None:
    data, values, rate = sounds.mp3(name)
    for recording in (data, 2 * TAG + data):
        found = np.frombuffer(heard(decoders, recording, AudioInput("sound", rate, len(values), 1)).samples, np.float32)
        assert len(found) == len(values)
        assert np.abs(found - values).max() < 2e-6


def test_an_mp3_that_was_cut_out_of_another_is_silent_until_its_bits_are_there(decoders: Any) -> None:
    data, values, rate = sounds.mp3("mono8.mp3")  # of seven frames, each of 576 samples
    values = values[2 * 576 :]
    target = AudioInput("sound", rate, len(values), len(values))
    found = np.frombuffer(heard(decoders, data[2 * len(data) // 7 :], target).samples, np.float32)
    assert not found[:576].any()
    assert np.abs(found - values)[3 * 576 :].max() < 2e-6


def test_another_rate_has_the_numbers_of_scipy(decoders: Any) -> None:
    values = np.sin(np.arange(40) * 0.3) * 0.5
    scipys = [
        0.038351026, 0.362659224, 0.500831754, 0.306207096, -0.081802177, -0.419767962, -0.484056401, -0.238953547,
        0.164899988, 0.455513177, 0.462403488, 0.154732013, -0.22791944, -0.505977571, -0.353672194,
    ]  # fmt: skip
    # scipy 1.17.1: resample_poly(values, 160, 441)
    data = sounds.wav("f64", values[:, None], 44_100)
    found = heard(decoders, data, AudioInput("sound", 16_000, 15, 15)).samples
    assert np.abs(np.frombuffer(found, np.float32) - scipys).max() < 1e-7
    assert np.abs(sounds.resampled(values, 44_100, 16_000) - scipys).max() < 1e-9


@given(st.sampled_from([8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 8_001]), st.integers(1, 300))
@settings(max_examples=25)
def test_any_rate_has_the_numbers_of_the_definition(decoders: Any, rate: int, frames: int) -> None:
    values = noise(frames).astype(np.float32)
    found = whole(decoders, sounds.wav("f32", values, rate))
    wanted = sounds.resampled(values[:, 0], rate, RATE)
    assert found.shape == wanted.shape == (-(-frames * RATE // rate),)
    assert np.abs(found - wanted).max() < 2e-7


@given(st.integers(1, 60), st.integers(1, 12), st.data())
def test_windows_have_every_sample_and_no_more_than_they_need(
    decoders: Any, frames: int, length: int, data: st.DataObject
) -> None:
    hop = data.draw(st.integers(1, length))
    target, values = AudioInput("sound", RATE, length, hop), noise(frames).astype(np.float32)
    samples, spans = heard(decoders, sounds.wav("f32", values, RATE), target)
    found = np.frombuffer(samples, np.float32).reshape(-1, length)
    assert len(found) == len(spans) == count_windows(frames, target)
    padded = np.pad(values[:, 0], (0, length))
    for number, (window, (start, end)) in enumerate(zip(found, spans, strict=True)):
        at = number * hop
        wanted = np.where(np.arange(at, at + length) < frames, padded[at : at + length], 0)
        assert np.array_equal(window, wanted)
        assert (round(start * RATE), round(end * RATE)) == (at, min(at + length, frames))
    assert (len(found) - 1) * hop + length >= frames
    assert len(found) == 1 or (len(found) - 2) * hop + length < frames


def fmt(offset: int, value: bytes, kind: str = "s16") -> bytes:
    """A WAV with other bytes in its chunk ``fmt ``."""
    data = bytearray(sounds.wav(kind, noise(20), RATE))
    data[20 + offset : 20 + offset + len(value)] = value
    return bytes(data)


def flac(offset: int, value: bytes) -> bytes:
    data = bytearray(sounds.flac("mono16.flac")[0])
    data[offset : offset + len(value)] = value
    return bytes(data)


def mp3(offset: int, value: bytes) -> bytes:
    data = bytearray(sounds.mp3("mono8.mp3")[0])
    data[offset : offset + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", errors.NotAudioError, "send WAV"),
        (b"OggS" + bytes(100), errors.NotAudioError, "send WAV"),
        (b"RIFF\0\0\0\0AVI LIST", errors.NotAudioError, "send WAV"),
        (b"RIFF\0\0\0\0WAVE", errors.TruncatedAudioError, "before its samples"),
        (b"RIFF\0\0\0\0WAVEdata\4\0\0\0abcd", errors.DamagedAudioError, "does not say what its samples are"),
        (b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 2_000, errors.UnsupportedAudioError, "pieces before its samples"),
        (sounds.wav("s16", noise(20), RATE)[:-2], errors.TruncatedAudioError, "ends too early"),
        (sounds.wav("s16", noise(0), RATE), errors.DamagedAudioError, "without samples"),
        (fmt(0, b"\6\0"), errors.UnsupportedAudioError, "save it as PCM or float"),
        (fmt(14, b"\7\1"), errors.UnsupportedAudioError, "save it as PCM or float"),
        (fmt(2, b"\0\0"), errors.DamagedAudioError, "another size"),
        (fmt(2, b"\0\0") [:32] + b"\0\0" + fmt(2, b"\0\0")[34:], errors.UnsupportedAudioError, "has 0 channels"),
        (sounds.wav("u8", noise(4, 9), RATE), errors.UnsupportedAudioError, "has 9 channels"),
        (fmt(4, b"\0\0\0\0"), errors.UnsupportedAudioError, "has 0 samples a second"),
        (fmt(4, b"\xff\xff\xff\xff"), errors.UnsupportedAudioError, "samples a second"),
        (sounds.wav("f32", noise(4) * np.inf, RATE), errors.DamagedAudioError, "no finite numbers"),
        (sounds.wav("u8", noise(61 * 1_000), 1_000), errors.RecordingTooLongError, "is 61 s long; at most 60 s"),
        (flac(4, b"\1"), errors.DamagedAudioError, "cannot be decoded"),
        (flac(0, b"fLaC")[:41], errors.TruncatedAudioError, "ends too early"),
        (flac(0, b"fLaC")[:-20], errors.TruncatedAudioError, "ends too early, or is damaged"),
        (flac(400, b"\0\0\0"), errors.TruncatedAudioError, "ends too early, or is damaged"),
        (flac(21, b"\xff\xff\xff\xff\xff"), errors.RecordingTooLongError, "s long; at most 60 s"),
        (flac(21, b"\xf0\0\0\0\0")[:60], errors.DamagedAudioError, "without samples"),
        (TAG + sounds.wav("u8", noise(9), RATE), errors.NotAudioError, "send WAV"),
        (mp3(2, b"\x08"), errors.NotAudioError, "send WAV"),  # of a free bit rate
        (mp3(0, b"\xff")[:-1], errors.TruncatedAudioError, "ends too early, or is damaged"),
        (mp3(0, b"\xff") + b"more", errors.TruncatedAudioError, "ends too early, or is damaged"),
        (mp3(216, b"\0"), errors.TruncatedAudioError, "ends too early, or is damaged"),  # no frame
        (mp3(219, b"\x44"), errors.TruncatedAudioError, "ends too early, or is damaged"),  # of two channels
        (mp3(4, b"\xff" * 16), errors.TruncatedAudioError, "ends too early, or is damaged"),  # in side information
    ],
)  # fmt: skip
def test_what_is_refused(decoders: Any, data: bytes, error: type[HandlerError], says: str) -> None:
    with pytest.raises(error, match=f"^it .*{says}"):
        heard(decoders, data, limits=RequestLimits(recorded_seconds=60))


def test_a_stream_of_unknown_length_goes_on_to_its_end(decoders: Any) -> None:
    values = noise(20)
    known, unknown = (whole(decoders, sounds.wav("s16", values, RATE, size=size)) for size in (None, 0xFFFFFFFF))
    assert np.array_equal(known, unknown)


def test_limits_hold_before_anything_is_decoded(decoders: Any) -> None:
    data = sounds.wav("u8", noise(1_000), RATE)
    with pytest.raises(errors.TooLargeError, match="has 1,056 bytes; at most 1,000 are allowed"):
        heard(decoders, data, limits=RequestLimits(recording=1_000))
    with pytest.raises(errors.RecordingTooLongError, match="has 249 windows; at most 100 are allowed"):
        heard(decoders, data, TARGET, RequestLimits(items=100))
    with pytest.raises(errors.OverBudgetError, match="would take about"):
        heard(decoders, data, limits=RequestLimits(memory=10_000))
    with pytest.raises(errors.OutOfTimeError):
        read_windows(data, "it", WHOLE, RequestLimits(), decoders, seconds=1e-9)


def test_a_few_bytes_of_flac_that_become_an_hour_are_refused_at_once(decoders: Any) -> None:
    """35 s of silence in a frame of 14 bytes, again and again, and STREAMINFO says nothing of how long it is."""
    data, _, _ = sounds.flac("mono16.flac")
    head = bytearray(data[:42])
    head[4] |= 0x80  # the only block of metadata
    head[8:12] = b"\xff\xff\xff\xff"  # blocks of 65,535 samples
    head[21:26] = bytes([head[21] & 0xF0, 0, 0, 0, 0])
    frames = b"".join(silent_frame(number) for number in range(2_000))
    limits = RequestLimits(samples=800_000, recorded_seconds=100_000)
    with pytest.raises(errors.OverBudgetError):
        heard(decoders, bytes(head) + frames, limits=limits)
    head[21:26] = bytes([head[21] & 0xF0, 0, 0, 0x10, 0])
    good = heard(decoders, bytes(head) + frames[:100], AudioInput("sound", RATE, 0x1000, 0x1000))
    assert good.samples == bytes(4 * 0x1000)


def test_small_mp3_frames_that_become_hours_are_refused_at_once(decoders: Any) -> None:
    frame = bytes([0xFF, 0xF3, 0x14, 0xC0]) + bytes(20)  # MPEG 2, 8 kbit/s, one channel: 24 ms in 24 bytes
    with pytest.raises(errors.RecordingTooLongError):
        heard(decoders, frame * 200_000)
    with pytest.raises(errors.OverBudgetError):
        heard(decoders, frame * 20_000, limits=RequestLimits(samples=100_000))
    with pytest.raises(errors.OverBudgetError):
        heard(decoders, frame * 20_000, limits=RequestLimits(memory=10_000_000))


def silent_frame(number: int) -> bytes:
    """A FLAC frame of 65,535 zeros, 16 bits, one channel: RFC 9639, section 9."""
    head = b"\xff\xf8\x70\x08" + coded(number) + b"\xff\xfe"
    head += bytes([crc(head, 8, 0x07)])
    body = head + b"\0\0\0"
    return body + crc(body, 16, 0x8005).to_bytes(2, "big")


def coded(number: int) -> bytes:
    return chr(number).encode()


def crc(data: bytes, bits: int, polynomial: int) -> int:
    value, top = 0, 1 << bits - 1
    for byte in data:
        value ^= byte << bits - 8
        for _ in range(8):
            value = (value << 1 ^ polynomial if value & top else value << 1) & (1 << bits) - 1
    return value


SEEDS = [sounds.wav("s16", noise(200, 2), 16_000, extensible=True), sounds.wav("f32", noise(50), RATE)]
SEEDS += [sounds.flac(name)[0] for name in sounds.FLAC] + [sounds.mp3(name)[0] for name in sounds.MP3]


@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 2_000), st.binary(max_size=4)), max_size=6))
@example(SEEDS[2], [(42, b"\x03\xff\xff\xff")])
def test_any_damage_is_a_typed_error_or_sound(decoders: Any, seed: bytes, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(seed)
    for at, value in changes:
        data[at : at + len(value) // 2] = value
    try:
        samples, spans = heard(decoders, bytes(data), TARGET, RequestLimits(recorded_seconds=60))
    except HandlerError:
        return
    assert len(samples) == 4 * LENGTH * len(spans)
    assert np.isfinite(np.frombuffer(samples, np.float32)).all()


def test_the_survey_reads_no_samples() -> None:
    found = read_audio_header(sounds.flac("stereo24.flac")[0])
    assert (found.format, found.rate, found.channels, found.frames) == ("FLAC", 44_100, 2, 900)


VALUES = np.linspace(-1, 1, 18)[:, None].astype(np.float32)
FILE = sounds.wav("f32", VALUES, RATE)
WANTED = [
    [*row, *[0.0] * (LENGTH - len(row))] for row in (VALUES[at : at + LENGTH, 0].tolist() for at in (0, 4, 8, 12))
]
SPANS = [(0.0, 0.001), (0.0005, 0.0015), (0.001, 0.002), (0.0015, 0.00225)]


def require_right(answer: Any) -> None:
    assert [(p["start"], p["end"]) for p in answer["predictions"]] == SPANS
    assert np.allclose([p["samples"] for p in answer["predictions"]], WANTED, atol=1e-7)
    assert set(answer["timings_ms"]) == {"decode", "infer", "total"}


@pytest.mark.parametrize("prefix", ["", "data:audio/wav;base64,"])
def test_a_request_is_answered_window_by_window(client: Client, prefix: str) -> None:
    status, answer = client.post("/predict", {"audio": prefix + base64.b64encode(FILE).decode()})
    assert status == 200, answer
    require_right(answer)


MEDIA = ["audio/wav", "audio/x-wav", "application/octet-stream", "application/x-www-form-urlencoded", ""]


@pytest.mark.parametrize("media", MEDIA)
def test_a_recording_as_it_is(client: Client, media: str) -> None:
    response = client.send("POST", "/predict", FILE, {"content-type": media})
    assert response.status == 200
    require_right(json.loads(response.body))


@pytest.mark.parametrize("data", [sounds.flac("mono16.flac")[0], *(sounds.mp3(name)[0] for name in sounds.MP3)])
def test_a_compressed_recording_is_known_by_its_first_bytes(client: Client, data: bytes) -> None:
    response = client.send("POST", "/predict", data, {"content-type": "application/x-www-form-urlencoded"})
    assert json.loads(response.body)["error"]["code"] == "recording_too_long"


def test_a_form_holds_one_recording(client: Client) -> None:
    part = b'--x\r\ncontent-disposition: form-data; name="a"; filename="a.wav"\r\n\r\n' + FILE + b"\r\n"
    headers = {"content-type": "multipart/form-data; boundary=x"}
    response = client.send("POST", "/predict", part + b"--x--\r\n", headers)
    require_right(json.loads(response.body))
    response = client.send("POST", "/predict", part * 2 + b"--x--\r\n", headers)
    assert json.loads(response.body)["error"]["message"] == "the form has 2 files; send one recording at a time"


@pytest.mark.parametrize(
    ("event", "status", "code"),
    [
        ({"audio": "@"}, 400, "not_base64"),
        ({"audio": 1}, 400, "wrong_type"),
        ({"audio": base64.b64encode(b"text").decode()}, 415, "not_audio"),
        ({"audio": {"s3": "s3://bucket/a.wav"}}, 403, "source_not_allowed"),
        ({"audio": {"url": "https://example.com/a.wav"}}, 403, "source_not_allowed"),
        ({"audio": {"ftp": "x"}}, 400, "wrong_type"),
        ({"image": "abc"}, 400, "wrong_field"),
        ({}, 400, "wrong_field"),
        ({"audio": "aaaa", "inputs": {"sound": [[0] * 8] * 2}}, 400, "wrong_field"),
        ({"audio": base64.b64encode(sounds.wav("u8", noise(1_000), RATE)).decode()}, 413, "recording_too_long"),
    ],
)
def test_wrong_requests(client: Client, event: object, status: int, code: str) -> None:
    found, answer = client.post("/predict", event)
    assert (found, answer["error"]["code"]) == (status, code), answer


def test_samples_are_taken_as_they_are(client: Client) -> None:
    rows = np.arange(24, dtype=float).reshape(3, 8).tolist()
    status, answer = client.post("/predict", {"inputs": {"sound": rows}})
    assert status == 200
    assert answer["predictions"] == [{"samples": row} for row in rows]


def test_openapi_describes_requests_and_answers(client: Client) -> None:
    document = client.get("/openapi.json")
    operation, event = document["paths"]["/predict"]["post"], {"audio": base64.b64encode(FILE).decode()}
    content = operation["requestBody"]["content"]
    assert {"audio/wav", "audio/flac", "multipart/form-data"} <= set(content)
    taken = {**content["application/json"]["schema"], "components": document["components"]}
    Draft202012Validator(taken).validate(event)
    assert not Draft202012Validator(taken).is_valid({"image": event["audio"]})
    given = operation["responses"]["200"]["content"]["application/json"]["schema"]
    Draft202012Validator({**given, "components": document["components"]}).validate(client.post("/predict", event)[1])


def test_other_bodies_are_refused(client: Client) -> None:
    response = client.send("POST", "/predict", FILE, {"content-type": "image/png"})
    assert response.status == 415
    assert "audio/*" in json.loads(response.body)["error"]["message"]


def test_windows_that_there_is_no_time_for_are_named(client: Client) -> None:
    left = itertools.chain([15_000] * 2, itertools.repeat(0))
    call = client.call()._replace(remaining_ms=lambda: next(left))
    request = client.server.prepare_request(_request(client), call)._replace(partial=True)
    from handler.protocols import predict

    answer = predict.format_result(client.server.run_inference(request, call), call, request.options)
    assert [(p["start"], p["end"]) for p in answer["predictions"]] == SPANS
    assert answer["predictions"][-1]["error"]["code"] == "out_of_time"


def _request(client: Client) -> Any:
    from handler.protocols import predict

    event = {"audio": base64.b64encode(FILE).decode()}
    return predict.parse_event(event, client.server.find_description(None), client.server.limits)


def test_a_description_that_does_not_fit_stops_the_function(tmp_path: Path) -> None:
    from handler.description import parse_description

    described = abi_library.sound_description()
    described["audio"]["length"] = 9
    with pytest.raises(errors.StartupError, match="does not hold 2 windows of 9 samples"):
        parse_description(json.dumps(described))
