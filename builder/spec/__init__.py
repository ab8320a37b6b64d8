"""model.toml: what the user says about a model.

``load`` reads one, ``render`` writes one, ``to_json`` is its text for cache keys; ``schema`` is the one
table that the checks, the comments and docs/model-toml.md come from.
"""

from builder.spec.canonical import to_json as to_json
from builder.spec.model import DIRECT_UPLOAD_ZIPPED as DIRECT_UPLOAD_ZIPPED
from builder.spec.model import LAMBDA_UNZIPPED as LAMBDA_UNZIPPED
from builder.spec.model import Activation as Activation
from builder.spec.model import Activations as Activations
from builder.spec.model import ActivationType as ActivationType
from builder.spec.model import AudioInput as AudioInput
from builder.spec.model import ChannelOrder as ChannelOrder
from builder.spec.model import ColorMode as ColorMode
from builder.spec.model import Decode as Decode
from builder.spec.model import FeedSpec as FeedSpec
from builder.spec.model import FetchSpec as FetchSpec
from builder.spec.model import Fit as Fit
from builder.spec.model import Format as Format
from builder.spec.model import Grid as Grid
from builder.spec.model import ImageInput as ImageInput
from builder.spec.model import LayerSpec as LayerSpec
from builder.spec.model import ModelSpec as ModelSpec
from builder.spec.model import Normalise as Normalise
from builder.spec.model import OutputKind as OutputKind
from builder.spec.model import OutputSpec as OutputSpec
from builder.spec.model import Resize as Resize
from builder.spec.model import SignatureSpec as SignatureSpec
from builder.spec.model import Source as Source
from builder.spec.model import TextInput as TextInput
from builder.spec.model import Tolerance as Tolerance
from builder.spec.model import Variant as Variant
from builder.spec.model import Weights as Weights
from builder.spec.model import WeightsPlace as WeightsPlace
from builder.spec.model import WeightType as WeightType
from builder.spec.model import sound_shapes as sound_shapes
from builder.spec.parser import load as load
from builder.spec.render import render as render
