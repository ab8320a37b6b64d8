"""Texts of `coldforge COMMAND --help` besides its arguments: an example, and the meaning of the command's numbers."""

EXAMPLES = {
    "new": "faces --from model.keras",
    "init": "model.keras --output faces/model.toml",
    "doctor": "",
    "docs": "projects",
    "bundle": "emotion --in host",
    "wasm": "emotion",
    "bindings": "emotion --lang rust",
    "export": "emotion --out exported",
    "selftest": "emotion",
    "weights": "emotion --output emotion.weights",
    "invoke": "emotion",
    "sample": "emotion",
    "serve": "emotion --port 8080",
    "bench": "emotion --seconds 5",
    "cost": "emotion --memory 512 1769",
    "inspect": "model.keras",
    "explain": "emotion --threads 2",
    "verify": "emotion --layers",
    "tune": "emotion --seconds 30",
    "accuracy": "emotion --images photos",
    "check-spec": "model.toml",
    "where": "emotion",
    "diff": "main/dist/emotion dist/emotion --time",
    "report": "emotion --output report.html",
    "deploy": "emotion --env prod --parameters MemorySize=2048",
    "publish": "emotion --prune 3",
    "stage": "emotion",
    "check": "MemorySize=2048 --template template.yaml",
    "batch start": "s3://pictures/in/ --to s3://answers/run1 --dry-run",
    "batch watch": "s3://answers/run1",
    "batch status": "s3://answers/run1",
    "batch stop": "s3://answers/run1",
    "batch resume": "s3://answers/run1",
    "batch collect": "s3://answers/run1 --output answers.parquet",
    "sign": "dist/emotion --key private.pem",
    "verify-bundle": "dist/emotion --key public.pem",
    "reproduce": "dist/emotion",
}
"""Arguments of each command's example, by its name."""

ABOUT = {
    "init": "Sizes in it are pixels, lengths are elements, and `scale` multiplies a pixel's 0 to 255.",
    "bundle": "The model of an example that is trained here is trained first.",
    "invoke": "Without an input it sends one of its own. Times are milliseconds on this machine: `init` from the start "
    "of Python until the function is ready, `first` the first request after that, `warm` the median of three more.",
    "serve": "It prints a line for each request: method, path, status, and the milliseconds from the whole request to "
    "the answer.",
    "bench": "Times are milliseconds on this machine: of one run of the library, of a request as its caller sees it, "
    "and of a start from nothing to the first answer.",
    "cost": "Times are milliseconds that the function itself takes of a warm request, in Lambda's emulator on this "
    "machine. Prices are US dollars for a million requests.",
}
"""Sentences after the first, for the commands that need some."""


def describe_command(name: str, line: str) -> str:
    """Return whole sentences on the command ``name``, of which ``line`` is the first."""
    return f"{line[0].upper()}{line[1:]}. {ABOUT.get(name, '')}".strip()


def format_example(name: str) -> str:
    """Return a command line of the command ``name``."""
    return f"coldforge {name} {EXAMPLES.get(name, '')}".strip()
