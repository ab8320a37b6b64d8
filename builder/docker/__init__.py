"""Building in a container: choose where, and run the build there."""

from builder.docker.client import Route, choose, engine_answers, why_no_engine
from builder.docker.run import DockerBuild, bundle_in_docker

__all__ = ["DockerBuild", "Route", "bundle_in_docker", "choose", "engine_answers", "why_no_engine"]
