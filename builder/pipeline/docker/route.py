"""Choice of where a build runs: in Docker, or on this machine.

Docker comes first if all that it needs is available: an engine, a client that can build images, and the base of the
builder image. These are checked before anything is fetched.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Literal

from builder.base.commands import route_option
from builder.base.errors import EnvironmentSetupError, UsageError
from builder.config import ModelSpec
from builder.importers.frameworks.framework_environment import FRAMEWORKS
from builder.pipeline.docker.docker_client import BuilderImage, why_no_engine

Route = Literal["docker", "host"]


def choose_route(
    build_in: str,
    specs: Sequence[ModelSpec],
    image: BuilderImage,
    say: Callable[[str], None],
    system: str = platform.system(),
) -> Route:
    """Choose the route for ``specs``: that of ``build_in``, and for "auto" Docker if a build can run there.

    ``say`` gets the line that explains why "auto" is this machine. ``system``: as ``platform.system`` names it. Raises
    UsageError for another word, and EnvironmentSetupError when no engine answers although Docker is demanded, or needed
    because this is not Linux.
    """
    if build_in not in ("auto", "docker", "host"):
        raise UsageError(f"BUILD_IN={build_in} is not docker, host or auto.")
    if build_in == "auto" and system == "Linux":
        reason = _why_not_in_docker(specs, image)
        if not reason:
            return "docker"
        say(f"building on this machine rather than in Docker: {reason}")
        return "host"
    if build_in == "host":
        if system != "Linux":
            raise EnvironmentSetupError(
                f"{system} cannot build by itself: TensorFlow's ahead-of-time compiler needs Linux. Start Docker, and "
                f"build there: {route_option('docker')}."
            )
        return "host"
    reason = why_no_engine()
    if not reason:
        return "docker"
    if system != "Linux":
        raise EnvironmentSetupError(f"a build on {system} needs Docker, and no engine answers ({reason}): start one.")
    raise EnvironmentSetupError(
        f"no Docker engine answers ({reason}): start one, or build with this machine's own packages, which gives the "
        f"same library: {route_option('host')}."
    )


def _why_not_in_docker(specs: Sequence[ModelSpec], image: BuilderImage) -> str | None:
    """Explain in a line why ``specs`` cannot be built in Docker here; None when they can. Fetches nothing."""
    return next(filter(None, map(why_not_in_image, specs)), None) or why_no_engine() or image.why_unavailable()


def why_not_in_image(spec: ModelSpec) -> str | None:
    """Explain in a line why the builder image cannot read the model of ``spec``; None when it can."""
    if framework := FRAMEWORKS.get(spec.source.format):
        return f"{spec.source.shown} is read by {framework.name}, which the builder image does not have"
    return None
