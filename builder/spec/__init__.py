"""model.toml: what the user says about a model.

``load`` reads one, ``render`` writes one, ``to_json`` is its text for cache keys; ``schema`` is the one
table that the checks, the comments and docs/model-toml.md come from.
"""

from builder.spec.canonical import to_json
from builder.spec.model import (
    DIRECT_UPLOAD_ZIPPED,
    LAMBDA_UNZIPPED,
    Activation,
    Activations,
    ActivationType,
    AudioInput,
    ChannelOrder,
    ColorMode,
    Decode,
    FeedSpec,
    FetchSpec,
    Fit,
    Format,
    ImageInput,
    LayerSpec,
    ModelSpec,
    Normalise,
    OutputKind,
    OutputSpec,
    Resize,
    SignatureSpec,
    Source,
    Tolerance,
    Variant,
    Weights,
    WeightsPlace,
    WeightType,
    sound_shapes,
)
from builder.spec.parser import load
from builder.spec.render import render

__all__ = [
    "DIRECT_UPLOAD_ZIPPED",
    "LAMBDA_UNZIPPED",
    "Activation",
    "ActivationType",
    "Activations",
    "AudioInput",
    "ChannelOrder",
    "ColorMode",
    "Decode",
    "FeedSpec",
    "FetchSpec",
    "Fit",
    "Format",
    "ImageInput",
    "LayerSpec",
    "ModelSpec",
    "Normalise",
    "OutputKind",
    "OutputSpec",
    "Resize",
    "SignatureSpec",
    "Source",
    "Tolerance",
    "Variant",
    "WeightType",
    "Weights",
    "WeightsPlace",
    "load",
    "render",
    "sound_shapes",
    "to_json",
]
