"""A recording, in base64 or elsewhere, which becomes windows of samples."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..deadline import seconds_left
from ..errors import WrongFieldError
from ..request import File, Reference, Request, source
from ..typed import TYPE_CHECKING, Any
from . import Kind, require_files

if TYPE_CHECKING:
    from ..budget import Limits
    from ..description import Description
    from ..server import Call, Server


class RecordingKind(Kind):
    """``{"audio": …}``."""

    example = '{"audio": "<base64>"}'

    def keys(self, description: Description) -> tuple[str, ...]:
        return ("audio",)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return super().schema(limits) | {"format": "audio-base64"}

    def media(self, description: Description) -> tuple[str, ...]:
        return ("audio/", "application/octet-stream", "multipart/form-data")

    def recognises(self, data: bytes) -> bool:
        from ..recording import is_recording

        return is_recording(data)

    def read_files(self, files: Sequence[File], description: Description, limits: Limits) -> dict[str, Any]:
        require_files(files, "recording")
        if len(files) > 1:
            raise WrongFieldError(f"the form has {len(files)} files; send one recording at a time")
        if not self.stands_alone(description):
            raise WrongFieldError("this model takes tensors beside the recording; send JSON with both")
        return {"recording": files[0]}

    def names(self, description: Description) -> tuple[str, ...]:
        return (description.audio.feed,) if description.audio else ()

    def read(self, event: dict[str, Any], description: Description, limits: Limits) -> dict[str, Any]:
        return {"recording": source(event["audio"], '"audio"', limits.recording)}

    def prepare(self, request: Request, server: Server, call: Call) -> Request:
        """Put the windows of the recording among the inputs."""
        if request.recording is None:
            return request
        from ..audio import windows

        began = time.perf_counter()
        model, description = server.model(request.model), server.described(request)
        seconds: dict[str, float] = {}
        if isinstance(request.recording, Reference):
            from ..remote import fetched

            request = fetched(request, server.sources, server.limits, call.remaining_ms())
            seconds["fetch"] = time.perf_counter() - began
        assert description.audio is not None
        assert isinstance(request.recording, File)
        start, file = time.perf_counter(), request.recording
        left = seconds_left(call.remaining_ms())
        samples, spans = windows(file.data, file.where, description.audio, server.limits, model.decoders, left)
        inputs = request.inputs | {description.audio.feed: samples}
        seconds["decode"] = time.perf_counter() - start
        return request._replace(recording=None, inputs=inputs, spans=spans, seconds=seconds)


KIND = RecordingKind()
