"""A recording, in base64 or stored elsewhere, which becomes windows of samples."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..audio import is_recording, read_windows
from ..budget import RequestLimits
from ..description import Description
from ..errors import WrongFieldError
from ..request import File, Reference, Request, read_source
from ..typed import Any
from . import InputKind, RunContext, require_files


def make_kind(description: Description) -> InputKind:
    """Return the kind of ``{"audio": …}``."""
    assert description.audio is not None
    return InputKind(
        example='{"audio": "<base64>"}',
        keys=("audio",),
        replaces=(description.audio.feed,),
        media_types=("audio/", "application/octet-stream", "multipart/form-data"),
        stands_alone=len(description.feeds) == 1,
        make_schema=lambda limits: {"type": "string", "contentEncoding": "base64", "format": "audio-base64"},
        is_file=is_recording,
        read_event=lambda event, _, limits: {"recording": read_source(event["audio"], '"audio"', limits.recording)},
        read_files=_read_files,
        prepare_request=_prepare_request,
    )


def _read_files(files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
    if len(files) > 1:
        raise WrongFieldError(f"the form has {len(files)} files; send one recording at a time")
    require_files(files, description, "recording")
    return {"recording": files[0]}


def _prepare_request(request: Request, context: RunContext) -> Request:
    """Put the windows of the recording among the inputs."""
    if request.recording is None:
        return request
    began = time.perf_counter()
    audio = context.describe_request(request).audio
    assert audio is not None
    seconds: dict[str, float] = {}
    if isinstance(request.recording, Reference):
        from ..remote import fetch_files

        request = fetch_files(request, context.sources, context.limits, context.remaining_ms())
        seconds["fetch"] = time.perf_counter() - began
    assert isinstance(request.recording, File)
    start, file = time.perf_counter(), request.recording
    decoders, left = context.model.decoders, context.count_seconds_left()
    samples, spans = read_windows(file.data, file.where, audio, context.limits, decoders, left)
    seconds["decode"] = time.perf_counter() - start
    return request._replace(recording=None, inputs=request.inputs | {audio.feed: samples}, spans=spans, seconds=seconds)
