"""Commands that run a bundle on this machine: invoke, serve, bench, cost."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from builder.base.commands import bundle_command
from builder.base.errors import UsageError
from builder.base.project import Project
from builder.base.targets import host_target, target_named
from builder.cli.command import (
    BUNDLED_MODELS,
    COUNT,
    MEASURING,
    ONE_MODEL,
    TARGET,
    Options,
    argument,
    bundle_of,
    command,
    exclusive,
    make_integer_type,
    print_result,
    progress_of,
)
from builder.measure.prices import MEMORY_MB


@command(
    "invoke",
    "emotion",
    BUNDLED_MODELS,
    exclusive(
        argument("--image", type=Path, metavar="FILE", help="an image (default: the tests' own)"),
        argument("--text", metavar="TEXT", help="a text, for a model that takes one (default: one of ours)"),
        argument(
            "--inputs", metavar="FILE", help="a request or any other event, in a file of JSON; - reads standard input"
        ),
        argument("--payload", metavar="JSON", help="the same, on the command line (default: zeros)"),
    ),
    TARGET,
)
def run_invoke(options: Options, project: Project) -> None:
    """Run a bundle on an image or a text in Lambda's emulator.

    Without an input it sends one of its own. Times are milliseconds on this machine: `init` from the start of
    Python until the function is ready, `first` the first request after that, `warm` the median of three more.
    """
    from builder.measure.local import run_event

    if options.target and options.target != host_target().name:
        raise UsageError(
            f"invoke runs the function on this machine, which is not {options.target}; "
            f"`{bundle_command(' '.join(options.models), target_named(options.target))}` runs its library under QEMU."
        )
    if options.inputs == "-":
        event = run_event.text_event(sys.stdin.read(), "standard input")
    elif options.inputs:
        event = run_event.file_event(Path(options.inputs))
    elif options.payload is not None:
        event = run_event.text_event(options.payload, "--payload")
    elif options.text is not None:
        event = {"text": options.text}
    elif options.image:
        event = run_event.image_event(options.image)
    else:
        event = run_event.default_event(bundle_of(options.models[:1], project).folder)
    result = run_event.invoke_bundle(bundle_of(options.models, project).layer, event)
    if options.json:
        print_result(options, result.to_dict(), "")
    else:
        print(json.dumps(result.answer, indent=2), flush=True)
        say = progress_of(options).show_lines
        if result.note:
            say(result.note)
        say(result.times)
    run_event.require_answer(result.answer)


@command("sample", "emotion", ONE_MODEL)
def run_sample(options: Options, project: Project) -> None:
    """Print a request that a bundle's model takes: an image, zeros."""
    from builder.measure.local import run_event

    request = run_event.default_event(bundle_of([options.model], project).folder)
    print_result(options, {"request": request}, json.dumps(request, indent=1))


@command(
    "serve",
    "emotion --port 8080",
    BUNDLED_MODELS,
    argument(
        "--port",
        type=make_integer_type(0, 65535),
        default=8080,
        help="port to serve on (default: 8080; 0 takes any free port)",
    ),
    argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name by which callers may reach this server, as that of a tunnel (default: localhost alone)",
    ),
    argument("--cors", default="", metavar="ORIGINS", help="origins whose pages may call the function, or *"),
)
def run_serve(options: Options, project: Project) -> None:
    """Serve a bundle on this machine as its Function URL does.

    It prints a line for each request: method, path, status, and the milliseconds from the whole request to the
    answer.
    """
    from builder.measure.local import emulator, http_server, request_check, run_event

    layer = bundle_of(options.models, project).layer
    environment = {"COLDFORGE_PLAYGROUND": "on", "COLDFORGE_CORS_ORIGINS": options.cors}

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    pages = tuple(origin.strip().rstrip("/") for origin in options.cors.split(",") if origin.strip())
    allowed = request_check.AllowedOrigins(tuple(name.lower() for name in options.allow_host), pages)
    stop_signals = (signal.SIGTERM, signal.SIGINT)
    for number in stop_signals:  # The background job of a shell would ignore SIGINT.
        signal.signal(number, signal.default_int_handler)  # The emulator ends in either case.
    with (
        suppress(KeyboardInterrupt),
        emulator.ReloadingEmulator(
            lambda: run_event.prepare_emulator(layer, environment=environment), layer / "lib" / "libmodel.so", say
        ) as running,
        http_server.serve_function(running.invoke, options.port, say, allowed=allowed) as url,
    ):
        print_result(options, {"url": url}, f"{url} (Ctrl-C ends)")
        sys.stdout.flush()
        progress_of(options).show_lines("a line for each request: method, path, status, milliseconds until the answer")
        try:
            while True:  # A signal that another thread receives would not wake a wait without an end.
                time.sleep(0.2)
        finally:
            for number in stop_signals:  # A second Ctrl-C does not cut the clean-up short.
                signal.signal(number, signal.SIG_IGN)


@command(
    "bench",
    "emotion --seconds 5",
    ONE_MODEL,
    argument("--threads", type=COUNT, default=1, help="threads of the library alone (default: 1)"),
    *MEASURING,
)
def run_bench(options: Options, project: Project) -> None:
    """Say how fast a bundle is here, its library and the function.

    Times are milliseconds on this machine: of one run of the library, of a request as its caller sees it, and of a
    start from nothing to the first answer.
    """
    from builder.measure import bench

    bundle = bundle_of([options.model], project)
    benchmark = bench.benchmark_bundle(bundle, threads=options.threads, seconds=options.seconds, starts=options.starts)
    print_result(options, asdict(benchmark), bench.format_benchmark(benchmark))


@command(
    "cost",
    "emotion --memory 512 1769",
    ONE_MODEL,
    argument(
        "--memory",
        type=COUNT,
        nargs="+",
        metavar="MB",
        help=f"sizes of memory (default: {' '.join(map(str, MEMORY_MB))})",
    ),
)
def run_cost(options: Options, project: Project) -> None:
    """Estimate what a million requests to a bundle's function cost.

    Times are milliseconds that the function itself takes of a warm request, in Lambda's emulator on this machine.
    Prices are US dollars for a million requests.
    """
    from builder.measure import cost

    measured = cost.measure_cost(bundle_of([options.model], project), options.memory or MEMORY_MB)
    print_result(options, asdict(measured), cost.format_cost(measured))


COMMANDS = (
    run_invoke,
    run_sample,
    run_serve,
    run_bench,
    run_cost,
)
