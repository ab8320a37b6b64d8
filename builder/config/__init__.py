"""The model.toml file, in which the user describes a model.

``read_spec`` reads one, ``render_spec`` writes one, ``to_json`` is its text for cache keys; ``schema`` is the only
table behind the checks, the comments and docs/model-toml.md.
"""

from builder.config.canonical import to_json as to_json
from builder.config.model_spec import DIRECT_UPLOAD_ZIPPED as DIRECT_UPLOAD_ZIPPED
from builder.config.model_spec import LAMBDA_UNZIPPED as LAMBDA_UNZIPPED
from builder.config.model_spec import Activation as Activation
from builder.config.model_spec import Activations as Activations
from builder.config.model_spec import ActivationType as ActivationType
from builder.config.model_spec import AudioSpec as AudioSpec
from builder.config.model_spec import ChannelOrder as ChannelOrder
from builder.config.model_spec import ColorMode as ColorMode
from builder.config.model_spec import Decode as Decode
from builder.config.model_spec import FeedSpec as FeedSpec
from builder.config.model_spec import FetchSpec as FetchSpec
from builder.config.model_spec import Fit as Fit
from builder.config.model_spec import Format as Format
from builder.config.model_spec import Grid as Grid
from builder.config.model_spec import ImageSpec as ImageSpec
from builder.config.model_spec import LayerSpec as LayerSpec
from builder.config.model_spec import ModelSpec as ModelSpec
from builder.config.model_spec import Normalise as Normalise
from builder.config.model_spec import OutputKind as OutputKind
from builder.config.model_spec import OutputSpec as OutputSpec
from builder.config.model_spec import Resize as Resize
from builder.config.model_spec import SignatureSpec as SignatureSpec
from builder.config.model_spec import Source as Source
from builder.config.model_spec import TextSpec as TextSpec
from builder.config.model_spec import Tolerance as Tolerance
from builder.config.model_spec import Variant as Variant
from builder.config.model_spec import Weights as Weights
from builder.config.model_spec import WeightsPlace as WeightsPlace
from builder.config.model_spec import WeightType as WeightType
from builder.config.model_spec import sound_shapes as sound_shapes
from builder.config.parser import read_spec as read_spec
from builder.config.render import render_spec as render_spec
