"""A recording, in base64 or stored elsewhere, which becomes windows of samples."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..deadline import seconds_left
from ..errors import WrongFieldError
from ..request import File, Reference, Request, read_source
from ..typed import TYPE_CHECKING, Any
from . import InputKind, require_files

if TYPE_CHECKING:
    from ..budget import RequestLimits
    from ..description import Description
    from ..server import Invocation, Server


class RecordingKind(InputKind):
    """A recording as ``{"audio": …}``."""

    example = '{"audio": "<base64>"}'

    def list_keys(self, description: Description) -> tuple[str, ...]:
        return ("audio",)

    def make_schema(self, limits: RequestLimits) -> dict[str, Any]:
        return super().make_schema(limits) | {"format": "audio-base64"}

    def list_media_types(self, description: Description) -> tuple[str, ...]:
        return ("audio/", "application/octet-stream", "multipart/form-data")

    def recognises_file(self, data: bytes) -> bool:
        from ..recording import is_recording

        return is_recording(data)

    def read_files(self, files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
        require_files(files, "recording")
        if len(files) > 1:
            raise WrongFieldError(f"the form has {len(files)} files; send one recording at a time")
        if not self.stands_alone(description):
            raise WrongFieldError("this model takes tensors beside the recording; send JSON with both")
        return {"recording": files[0]}

    def list_inputs(self, description: Description) -> tuple[str, ...]:
        return (description.audio.feed,) if description.audio else ()

    def read_event(self, event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        return {"recording": read_source(event["audio"], '"audio"', limits.recording)}

    def prepare_request(self, request: Request, server: Server, call: Invocation) -> Request:
        """Put the windows of the recording among the inputs."""
        if request.recording is None:
            return request
        from ..audio import read_windows

        began = time.perf_counter()
        model, description = server.find_model(request.model), server.describe_request(request)
        seconds: dict[str, float] = {}
        if isinstance(request.recording, Reference):
            from ..remote import fetch_files

            request = fetch_files(request, server.sources, server.limits, call.remaining_ms())
            seconds["fetch"] = time.perf_counter() - began
        assert description.audio is not None
        assert isinstance(request.recording, File)
        start, file = time.perf_counter(), request.recording
        left = seconds_left(call.remaining_ms())
        samples, spans = read_windows(file.data, file.where, description.audio, server.limits, model.decoders, left)
        inputs = request.inputs | {description.audio.feed: samples}
        seconds["decode"] = time.perf_counter() - start
        return request._replace(recording=None, inputs=inputs, spans=spans, seconds=seconds)


KIND = RecordingKind()
