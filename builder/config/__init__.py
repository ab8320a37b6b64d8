"""The model.toml file, in which the user describes a model.

``read_spec`` reads one, ``render_spec`` writes one, ``to_json`` is its text for cache keys; the classes of ``schema``
have its keys, for the checks, the comments and docs/model-toml.md.
"""

from builder.config.canonical import to_json as to_json
from builder.config.model_spec import ModelSpec as ModelSpec
from builder.config.model_spec import SignatureSpec as SignatureSpec
from builder.config.model_spec import Variant as Variant
from builder.config.model_spec import sound_shapes as sound_shapes
from builder.config.parser import read_spec as read_spec
from builder.config.render import render_spec as render_spec
from builder.config.schema import DIRECT_UPLOAD_ZIPPED as DIRECT_UPLOAD_ZIPPED
from builder.config.schema import LAMBDA_UNZIPPED as LAMBDA_UNZIPPED
from builder.config.schema import Activation as Activation
from builder.config.schema import Activations as Activations
from builder.config.schema import ActivationType as ActivationType
from builder.config.schema import AudioSpec as AudioSpec
from builder.config.schema import ChannelOrder as ChannelOrder
from builder.config.schema import ColorMode as ColorMode
from builder.config.schema import Decode as Decode
from builder.config.schema import FeedSpec as FeedSpec
from builder.config.schema import FetchSpec as FetchSpec
from builder.config.schema import Fit as Fit
from builder.config.schema import Format as Format
from builder.config.schema import Grid as Grid
from builder.config.schema import ImageSpec as ImageSpec
from builder.config.schema import LayerSpec as LayerSpec
from builder.config.schema import Layout as Layout
from builder.config.schema import Normalise as Normalise
from builder.config.schema import OutputKind as OutputKind
from builder.config.schema import OutputSpec as OutputSpec
from builder.config.schema import Resize as Resize
from builder.config.schema import Source as Source
from builder.config.schema import TextSpec as TextSpec
from builder.config.schema import Tolerance as Tolerance
from builder.config.schema import Weights as Weights
from builder.config.schema import WeightsPlace as WeightsPlace
from builder.config.schema import WeightType as WeightType
