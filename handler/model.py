"""The compiled models behind their C ABI."""

# pathlib would be imported for this alone
# ruff: noqa: PTH113, PTH118, PTH208

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ._abi import ffi
from .description import Description, parse_description
from .errors import InferenceError, ResultTooLargeError, StartupError, UnfitInputError
from .processes import choose_thread_count
from .typed import Any

ABI_VERSION = 1
DEFAULT_LIBRARY = "/opt/lib/libmodel.so"  # where Lambda unpacks the model layer
OK, UNSUPPORTED_CPU, NO_MEMORY, WRONG_WEIGHTS, TOO_LARGE, OUT_OF_RANGE = 0, 1, 2, 5, 6, 7

Bytes = bytes | bytearray | memoryview


class Model:
    """An opened model. Any thread may call ``run``; the calls run one after the other."""

    def __init__(self, path: str) -> None:
        """Load the library at ``path`` and open the model in it. Raises StartupError, which says what to do."""
        self._library = _load_library(path)
        self.folder = os.path.dirname(path)  # noqa: PTH120
        """The folder that holds the library and its other files."""
        self.description: Description = parse_description(_read_string(self._library.cf_describe()))
        self._lock = threading.RLock()
        self._handle, self._weights = _open_library(self._library, self.description)
        signatures = (self.description, *self.description.others)
        self.decoders: Any = None
        """The decoders of recordings, for a model that takes sound."""
        self.texts: Any = None
        """The encoders of texts to token ids, for a model that takes texts."""
        self.words: Any = {}
        """The encoders of strings to numbers, by the signature that takes them."""
        if self.description.audio:
            from .audio import open_decoders

            self.decoders = open_decoders(path)
        if self.description.text:
            from .text import open_texts

            self.texts = open_texts(path, self.description)
        if any(signature.strings for signature in signatures):
            from .text.words import open_words

            self.words = open_words(path)
        # These are filled in before every run, so that a request allocates nothing but its answer.
        self._feeds = ffi.new("cf_feed[]", max(len(signature.feeds) for signature in signatures))
        self._fetches = ffi.new("cf_fetch[]", max(len(signature.fetches) for signature in signatures))
        self._signature = self.description.signature  # the signature that the library is set to

    def run(
        self, feeds: Sequence[Bytes], size: int | None = None, signature: str = "", before: int = 0
    ) -> list[memoryview]:
        """Run one inference and return each fetch as a flat, row-major memoryview of its own dtype.

        ``feeds``: raw bytes in the description's order, of exactly its sizes, or in proportion for another batch.
        ``size``: an index into the model's sizes, by default the first that the feeds fit. ``signature``: by default
        the first. ``before``: the number of items of the same request before these. The result stays valid after
        later runs. Raises UnfitInputError, ResultTooLargeError, and InferenceError with the library's reason.
        """
        description = self.description.select_signature(signature)
        if description.sizes:
            description = description.select_size(_find_size(feeds, description) if size is None else size)
        if len(feeds) != len(description.feeds):
            raise InferenceError(f"the model takes {len(description.feeds)} feeds, not {len(feeds)}")
        feed_bytes, port_bytes = 1, 1
        if len(description.batches) > 1:
            feed_bytes, port_bytes = len(feeds[0]), description.feeds[0].size
        results = [bytearray(port.size * feed_bytes // port_bytes) for port in description.fetches]
        # from_buffer keeps the memory in place only while its result is referenced, so all are kept here.
        inputs = [ffi.from_buffer(feed) for feed in feeds]
        outputs = [ffi.from_buffer(result) for result in results]
        with self._lock:
            if self._handle is None:
                raise InferenceError("the model is closed")
            for slot, pointer in zip(self._feeds, inputs, strict=False):  # another signature may have more feeds
                slot.data, slot.size = pointer, len(pointer)
            for slot, pointer in zip(self._fetches, outputs, strict=False):
                slot.data, slot.size = pointer, len(pointer)
            if self._signature != description.signature:
                self._library.cf_set_signature(self._handle, description.signature.encode())
                self._signature = description.signature
            status = self._library.cf_run(self._handle, self._feeds, len(inputs), self._fetches, len(outputs))
            reason = "" if status == OK else _read_string(self._library.cf_last_error(self._handle))
        if status == OUT_OF_RANGE:
            raise UnfitInputError(_describe_unfit_input(reason, description, before))
        if status == TOO_LARGE:
            raise ResultTooLargeError(f"the model found too much: {reason}")
        if status != OK:
            raise InferenceError(f"the model failed with status {int(status)}: {reason}")
        return [memoryview(r).cast(port.format) for r, port in zip(results, description.fetches, strict=True)]

    @contextmanager
    def start_sequence(self) -> Iterator[None]:
        """Return a context for runs of a model with state, which begins with its initial state.

        No run of another thread comes between them. For a model without state, the context does nothing.
        """
        if not self.description.stateful:
            yield
            return
        with self._lock:
            if self._handle is not None:
                self._library.cf_reset(self._handle)
            yield

    def warm_up(self) -> None:
        """Run every batch, size and signature once on zeros, to touch all that requests use. Raises InferenceError."""
        for signature in (self.description, *self.description.others):
            for sized in signature.size_variants:
                for batch in signature.batches:
                    zeros = [bytes(port.size * batch // signature.batch) for port in sized.feeds]
                    self.run(zeros, sized.size, signature.signature)
        with self._lock:  # restores the state and the random numbers of a model that was just opened
            if self._handle is not None:
                self._library.cf_reset(self._handle)

    def close(self) -> None:
        """Free the model's memory; later runs raise InferenceError."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            self._library.cf_close(handle)
            self._weights = None


class Models(Mapping[str, Model]):
    """A bundle's models by name. The first is opened at once, and any other when it is first looked up."""

    def __init__(self, path: str) -> None:
        """Open the first model from the library at ``path``, and find the others beside it in ``<name>/libmodel.so``.

        Raises StartupError, as does looking up a model that cannot be opened.
        """
        first = Model(path)
        self.first = first
        self._opened = {first.description.name: first}
        self._paths = {first.description.name: path, **dict(_find_other_models(path))}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Model:
        path = self._paths[name]
        with self._lock:
            if name not in self._opened:
                self._opened[name] = Model(path)
            return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def open_models() -> Models:
    """Return the models of ``$COLDFORGE_LIBRARY``, or else of the model layer. Raises StartupError."""
    return Models(os.environ.get("COLDFORGE_LIBRARY") or DEFAULT_LIBRARY)


def _find_size(feeds: Sequence[Bytes], description: Description) -> int:
    """Return the first size that the feeds fit in one of the batches, or 0, which the library then refuses."""
    lengths = [len(feed) for feed in feeds]
    for number, (ports, _) in enumerate(description.sizes):
        if any(lengths == [p.size * batch // description.batch for p in ports] for batch in description.batches):
            return number
    return 0


def _find_other_models(path: str) -> Iterator[tuple[str, str]]:
    folder, file = os.path.split(path)
    for name in sorted(os.listdir(folder or ".")):
        library = os.path.join(folder, name, file)
        if os.path.isfile(library):
            yield name, library


def _load_library(path: str) -> Any:
    if not os.path.isfile(path):
        raise StartupError(
            f"there is no model at {path}: add the model layer to the function, or set COLDFORGE_LIBRARY."
        )
    try:
        library = ffi.dlopen(path)
        version = library.cf_abi_version()
    except (OSError, AttributeError, ffi.error) as error:
        raise StartupError(
            f"{path} cannot be loaded ({error}): it must be a libmodel.so built for this architecture."
        ) from error
    if version != ABI_VERSION:
        raise StartupError(
            f"{path} has ABI version {version}, this function needs {ABI_VERSION}: "
            "build the bundle and the function with the same version of coldforge."
        )
    return library


def _open_library(library: Any, description: Description) -> tuple[Any, Any]:
    """Return the opened model, and the memory that must stay while it is open."""
    handle = ffi.new("cf_model **")
    memory, where = None, ""
    if description.weights:
        from .weights import open_with_weights

        status, memory, where = open_with_weights(library, handle, description.name, description.weights)
    else:
        status = library.cf_open(choose_thread_count(), handle)
    if status == OK:
        return handle[0], memory
    reason = _read_string(library.cf_last_error(ffi.NULL))
    advice = {
        WRONG_WEIGHTS: f"the weights are looked for {where}; COLDFORGE_WEIGHTS names another place for the file that "
        "was built with the library, or that `coldforge weights` made for it.",
        UNSUPPORTED_CPU: "run the function on the architecture the bundle is for (x86_64 with AVX2, or arm64).",
        NO_MEMORY: "give the function more memory.",
    }
    raise StartupError(f"the model cannot be opened ({reason}): {advice.get(status, 'build the bundle again.')}")


def _describe_unfit_input(reason: str, description: Description, before: int) -> str:
    """Return the library's ``reason``, "feed NAME: element NUMBER must be RANGE, not INDEX", without the caller's data.

    The element is counted in the whole request, of which other runs had ``before`` items. In a padded feed, where the
    caller counts otherwise, it is named by its place in each dimension.
    """
    name, _, rest = reason.removeprefix("feed ").rpartition(": element ")
    number, _, rule = rest.partition(" ")
    name = name.rstrip("\ufffd")  # a long name is cut off, perhaps within a character
    port = min((port for port in description.feeds if port.name.startswith(name)), key=lambda port: len(port.name))
    element = int(number) + before * port.elements // description.batch
    if port.name not in description.pad:
        return f'"{name}": element {element} {rule.rpartition(",")[0]}'
    places: list[int] = []
    for size in reversed(port.shape[1:]):
        element, place = divmod(element, size)
        places.insert(0, place)
    return f'"{name}": element {[element, *places]} {rule.rpartition(",")[0]}'


def _read_string(pointer: Any) -> str:
    return bytes(ffi.string(pointer)).decode(errors="replace")
