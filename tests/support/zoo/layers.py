"""Layers and small networks: every kind of convolution, recurrence, attention and normalisation."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as kl

from .case import Function, boolean, case, f32, f64, i32, model, weights


@case(f32("x", 4, 20), covers=("Kernel",))
def mlp() -> Function:
    x = keras.Input((20,))
    return model(x, kl.Dense(5, activation="softmax")(kl.Dense(32, activation="relu")(x)))


@case(f32("x", 64, 64), covers=("Dot",))
def mlp_batch_64() -> Function:
    x = keras.Input((64,))
    return model(x, kl.Dense(10)(kl.Dense(96, activation="tanh")(kl.BatchNormalization()(x))))


@case(f32("x", 1, 768), covers=("Kernel with several work groups",))
def dense_wide() -> Function:
    """One row times a wide matrix: XLA splits the columns between work groups."""
    first, second = weights(768, 2048), weights(2048, 10)
    return lambda x: tf.nn.relu(x @ first) @ second


@case(f32("x", 2, 12, 8), covers=("While",))
def lstm() -> Function:
    x = keras.Input((12, 8))
    return model(x, kl.LSTM(16, return_sequences=True)(x))


@case(f32("x", 3, 10, 6), covers=("While",))
def gru() -> Function:
    x = keras.Input((10, 6))
    return model(x, kl.Dense(4)(kl.GRU(12)(x)))


@case(f32("x", 2, 9, 5), covers=("While",))
def bidirectional_lstm() -> Function:
    x = keras.Input((9, 5))
    return model(x, kl.Bidirectional(kl.LSTM(8, return_sequences=True))(x))


@case(f32("x", 1, 20, 24), covers=("While",))
def recurrent_wide() -> Function:
    """Of both kinds that are one step, forwards and backwards, with biases, for all states and for the last."""
    x = keras.Input((20, 24))
    y = kl.Bidirectional(kl.LSTM(48, return_sequences=True, bias_initializer="random_normal"))(x)
    return model(x, kl.Dense(4)(kl.GRU(64, bias_initializer="random_normal")(y)))


@case(f32("x", 3, 11, 5), covers=("While",))
def recurrent_states() -> Function:
    """The states are answers as well, and where the layers begin."""
    first = kl.LSTM(20, return_sequences=True, return_state=True, bias_initializer="random_normal")
    second = kl.GRU(12, return_sequences=True, return_state=True, go_backwards=True, bias_initializer="random_normal")

    def run(x: Any) -> Any:
        y, h, c = first(x)
        z, s = second(y, initial_state=tf.tanh(h[:, :12]))
        return z, s, h, c

    return run


@case(f32("x", 1, 20, 24), covers=("While",))
def recurrent_of_other_kinds() -> Function:
    """Large enough for its products to be exchanged: of the inputs, for all steps before the loop."""
    x = keras.Input((20, 24))
    y = kl.SimpleRNN(48, return_sequences=True)(x)
    y = kl.LSTM(48, activation="relu", return_sequences=True)(y)
    return model(x, kl.Dense(4)(kl.GRU(64, recurrent_activation="hard_sigmoid")(y)))


@case(f32("x", 2, 24, 64), covers=("Dot",))
def transformer_block() -> Function:
    x = keras.Input((24, 64))
    y = kl.LayerNormalization()(x + kl.MultiHeadAttention(4, 16)(x, x))
    return model(x, kl.LayerNormalization()(y + kl.Dense(64)(kl.Dense(128, activation="gelu")(y))))


@case(f32("x", 2, 5, 48), f32("y", 3, 24), f32("p", 1, 6, 7, 16))
def layer_norms() -> Function:
    """As Keras, JAX and language models write them; over rows, over one dimension, over pixels; some used twice."""
    gamma, beta = weights(48, seed=1), weights(48, seed=2)
    keras_norm, pixels = kl.LayerNormalization(epsilon=1e-5), kl.LayerNormalization()
    convolution = kl.Conv2D(8, 3, padding="same")

    def run(x: Any, y: Any, p: Any) -> Any:
        first = keras_norm(x) * gamma + beta
        mean = tf.reduce_mean(first, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(first), -1, keepdims=True) - tf.square(mean)
        second = (first - mean) / tf.sqrt(variance + 1e-3)
        third = x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6) * gamma
        plain = (y - tf.reduce_mean(y, -1, keepdims=True)) * tf.math.rsqrt(
            tf.math.reduce_variance(y, -1, keepdims=True) + 1e-5
        )
        whole = tf.reduce_mean(x, keepdims=True)  # over all dimensions: none
        other = (x - whole) * tf.math.rsqrt(tf.reduce_mean(tf.square(x - whole), keepdims=True) + 1e-5)
        return first, second, third, plain, plain @ weights(24, 5), other, convolution(pixels(p))

    return run


class _LimitedCell(kl.LSTMCell):
    """Keeps the cell's state within bounds that few values come to."""

    def call(self, *arguments: Any, **options: Any) -> Any:
        y, (h, c) = super().call(*arguments, **options)
        return y, [h, tf.clip_by_value(c, -4.0, 4.0)]


@case(f32("x", 1, 9, 48), covers=("While",))
def limited_cell() -> Function:
    """An LSTM but for that, with inputs that come to the bounds."""
    layer = kl.RNN(_LimitedCell(16), return_state=True)
    return lambda x: layer(1e3 + x)[1:]


@case(f32("x", 1, 9, 48))
def limited_norms() -> Function:
    """Norms but for that, with inputs that come to the limits."""
    norm = kl.LayerNormalization()

    def run(x: Any) -> Any:
        peak = tf.where(x == tf.reduce_max(x, -1, keepdims=True), 1e6, x)
        return tf.clip_by_value(norm(peak), -6.0, 6.0), norm(tf.clip_by_value(1e6 * x, -1e4, 1e4))

    return run


@case(f32("x", 3, 20, 24), covers=("Dot",))
def repeated_weights() -> Function:
    """The same for every matrix of a batch, as they are and transposed: PyTorch writes such products."""
    first, second, bias = weights(24, 40), weights(16, 40, seed=1), weights(40, seed=2)

    def run(x: Any) -> Any:
        y = tf.nn.relu(tf.matmul(x, tf.broadcast_to(first, (3, 24, 40))) + bias)
        return tf.matmul(y, tf.broadcast_to(second, (3, 16, 40)), transpose_b=True)

    return run


@case(f32("x", 2, 21, 48), f32("y", 2, 37, 40), boolean("seen", 2, 37), i32("ids", 2, 21), ranges={"ids": (0, 3)})
def attentions() -> Function:
    """With every form of mask: chosen, causal, added; of keys of other sizes, and heads of queries that share one."""
    cross = kl.MultiHeadAttention(3, 16, value_dim=24, bias_initializer="random_normal")
    causal = kl.MultiHeadAttention(4, 12, bias_initializer="random_normal")
    grouped = kl.GroupQueryAttention(8, 4, 2)
    own = [weights(48, 48, seed=seed) for seed in range(3)]

    def run(x: Any, y: Any, seen: Any, ids: Any) -> Any:
        x += cross(x, y, attention_mask=seen[:, None, :])
        x += causal(x, x, use_causal_mask=True)
        x += grouped(x, x)
        q, k, v = (tf.transpose(tf.reshape(x @ w, (2, 21, 6, 8)), (0, 2, 1, 3)) for w in own)
        hidden = (1.0 - tf.cast(tf.not_equal(ids, 0), tf.float32)) * -1e4
        scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(8.0) + hidden[:, None, None, :]
        plain = tf.matmul(tf.nn.softmax(scores), v)
        # As PyTorch writes it: the factor in two halves, and zeros for a query that sees no key.
        scores = tf.matmul(plain * 0.7, k * 0.7, transpose_b=True)
        scores += tf.where(tf.equal(ids, 0), -np.inf, 0.0)[:, None, None, :]
        some = tf.reduce_any(tf.not_equal(scores, -np.inf), -1, keepdims=True)
        safe = tf.matmul(tf.where(some, tf.nn.softmax(scores), 0.0), v)
        return tf.reshape(tf.transpose(safe, (0, 2, 1, 3)), (2, 21, 48))

    return run


@case(f32("x", 1, 64, 48), boolean("seen", 1, 64))
def attention_of_one() -> Function:
    """Of one long sequence: XLA drops the batch from what is repeated, and reduces rows in two steps."""
    own = [weights(48, 48, seed=seed) for seed in range(3)]

    def run(x: Any, seen: Any) -> Any:
        q, k, v = (tf.transpose(tf.reshape(x @ w, (1, 64, 6, 8)), (0, 2, 1, 3)) for w in own)
        scores = tf.matmul(q, k, transpose_b=True) + tf.where(seen, 0.0, -np.inf)[:, None, None, :]
        some = tf.reduce_any(tf.not_equal(scores, -np.inf), -1, keepdims=True)
        return tf.matmul(tf.where(some, tf.nn.softmax(scores), 0.0), v)

    return run


@case(i32("tokens", 2, 12), ranges={"tokens": (0, 50)})
def embedding_and_pooling() -> Function:
    tokens = keras.Input((12,), dtype="int32")
    return model(tokens, kl.Dense(3)(kl.GlobalAveragePooling1D()(kl.Embedding(50, 16)(tokens))))


@case(i32("tokens", 2, 20), f32("kinds", 2, 20), ranges={"tokens": (-300, 300), "kinds": (0, 70)})
def embeddings() -> Function:
    """Numbers of words, some counted from the table's end, and floats that are numbers; a product with the table."""
    words, kinds = weights(300, 44, scale=1.0), weights(70, 44, scale=1.0)

    def run(tokens: Any, sorts: Any) -> Any:
        numbers = tf.where(tokens < 0, tokens + 300, tokens)
        x = tf.gather(words, numbers) + tf.gather(kinds, tf.cast(sorts, tf.int32))
        x -= tf.reduce_mean(x, -1, keepdims=True)
        x *= tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6)
        return tf.matmul(tf.reduce_mean(x, 1), words, transpose_b=True)

    return run


@case(i32("i", 2), i32("places", 3, 2), i32("lengths", 4), ranges={"i": (0, 8), "places": (0, 3), "lengths": (0, 6)})
def indices() -> Function:
    """Indices of several ops, some in one input: each element has a range of its own."""
    table = weights(10, 3)

    def run(i: Any, places: Any, lengths: Any) -> tuple[Any, ...]:
        rows = tf.gather(table, tf.stack([i[1], i[0], 9]))
        window = tf.slice(table, [i[0], 0], [3, 2])
        row = table[i[1]]
        updated = tf.tensor_scatter_nd_update(table[:, 0], i[:, None], tf.constant([100.0, 200.0]))
        reversed_rows = tf.reverse_sequence(tf.reshape(table[:8], (4, 6)), lengths, 1)
        return rows, window, row, updated, tf.gather_nd(table, places), reversed_rows

    return run


@case(f32("volume", 2, 7, 10, 9, 3), covers=("Convolution", "no graph.h"))
def volumes() -> Function:
    """The transposed and the deep one are XLA's, for which tfcompile refuses to write C++; the others become 2-D."""
    volume = keras.Input((7, 10, 9, 3))
    y = kl.BatchNormalization()(kl.Conv3D(8, 3, padding="same", activation="relu")(volume))
    y = kl.MaxPooling3D(2, padding="same")(kl.Conv3D(12, (1, 3, 2), strides=(1, 2, 1))(y))
    y = kl.Conv3DTranspose(6, 3, strides=2, padding="same")(y)
    y = kl.Conv3D(4, (3, 1, 1), strides=(2, 1, 1), padding="same")(kl.AveragePooling3D((1, 3, 2))(y))
    return model(volume, kl.Conv3D(2, 1)(y))


@case(f32("image", 1, 32, 32, 3), covers=("Convolution",))
def unet() -> Function:
    image = keras.Input((32, 32, 3))
    down = kl.Conv2D(8, 3, padding="same", activation="relu")(image)
    y = kl.Conv2D(16, 3, padding="same", dilation_rate=2, activation="relu")(kl.MaxPooling2D()(down))
    y = kl.Conv2D(16, 3, padding="same", dilation_rate=4, activation="relu")(kl.AveragePooling2D(2)(y))
    y = kl.Conv2DTranspose(8, 3, strides=2, padding="same")(y)
    y = kl.UpSampling2D(interpolation="bilinear")(y)
    return model(image, kl.Conv2D(2, 1, activation="sigmoid")(kl.Concatenate()([y, down])))


@case(f32("x", 2, 40, 6), covers=("Convolution",))
def conv1d() -> Function:
    x = keras.Input((40, 6))
    return model(x, kl.Conv1D(4, 3)(kl.Conv1D(12, 5, strides=2, padding="same", activation="relu")(x)))


@case(f32("x", 1, 48, 4))
def conv1d_causal_dilated() -> Function:
    x = keras.Input((48, 4))
    y = kl.Conv1D(8, 3, padding="causal", dilation_rate=1, activation="relu")(x)
    return model(x, kl.Conv1D(8, 3, padding="causal", dilation_rate=4)(y))


@case(f32("x", 2, 13, 17, 6), covers=("Convolution",))
def conv2d_in_phases() -> Function:
    """TensorFlow makes a batch of the phases of an image, for DepthwiseConv2D and in graphs of version 1."""
    plain, depthwise = weights(3, 3, 6, 8), weights(3, 2, 6, 1)

    def run(x: Any) -> Any:
        y = tf.nn.relu(tf.nn.depthwise_conv2d(x, depthwise, [1, 1, 1, 1], "SAME", dilations=(2, 3)))
        blocks, paddings, crops = [3, 2], [[2, 3], [1, 2]], [[0, 1], [1, 0]]
        return tf.batch_to_space(tf.nn.conv2d(tf.space_to_batch(y, blocks, paddings), plain, 1, "VALID"), blocks, crops)

    return run


@case(f32("x", 2, 7, 5, 6), covers=("Convolution",))
def conv2d_transpose_stride_2() -> Function:
    x = keras.Input((7, 5, 6))
    y = kl.Conv2DTranspose(8, 3, strides=2, padding="valid")(x)
    return model(x, kl.Conv2DTranspose(4, 4, strides=(2, 3), padding="same")(y))


@case(f32("x", 2, 10, 9, 12), covers=("Convolution",))
def conv2d_grouped() -> Function:
    """Keras wraps this one in a function of its own, from which the frozen graph infers no shape."""
    x = keras.Input((10, 9, 12))
    return model(x, kl.Conv2D(18, 3, groups=3, padding="same")(x))


@case(f32("x", 1, 12, 12, 8))
def conv2d_grouped_strided_dilated() -> Function:
    kernel = weights(3, 3, 4, 6)
    padding = [[0, 0], [1, 2], [0, 1], [0, 0]]
    return lambda x: (
        tf.nn.conv2d(x, kernel, strides=2, padding=padding),
        tf.nn.conv2d(x, kernel, strides=1, padding="SAME", dilations=[2, 3]),
    )


@case(f32("x", 2, 11, 11, 6))
def conv2d_depthwise() -> Function:
    x = keras.Input((11, 11, 6))
    y = kl.DepthwiseConv2D(3, depth_multiplier=2, padding="same", activation="relu6")(x)
    return model(x, kl.DepthwiseConv2D(5, strides=2, padding="same")(y))


@case(f32("x", 1, 14, 14, 5))
def conv2d_separable() -> Function:
    x = keras.Input((14, 14, 5))
    return model(x, kl.SeparableConv2D(9, 3, padding="same", depth_multiplier=2)(x))


@case(f32("x", 1, 20, 20, 3))
def conv2d_atrous_valid_stride() -> Function:
    x = keras.Input((20, 20, 3))
    y = kl.Conv2D(8, 3, dilation_rate=(2, 3), padding="valid", activation="relu")(x)
    return model(x, kl.Conv2D(6, (5, 2), strides=(3, 2), padding="valid")(y))


@case(f32("x", 4, 8, 8, 16))
def conv2d_1x1_batch_4() -> Function:
    x = keras.Input((8, 8, 16))
    return model(x, kl.Conv2D(24, 1)(x))


@case(f64("x", 1, 8, 8, 3), f32("y", 1, 8, 8, 3), absolute=2e-2, relative=2e-2)
def conv2d_other_types() -> Function:
    """float64, and float16 inside the graph."""
    wide, half = weights(3, 3, 3, 4, dtype="float64"), tf.cast(weights(3, 3, 3, 4), tf.float16)
    return lambda x, y: (
        tf.nn.conv2d(x, wide, strides=1, padding="SAME"),
        tf.cast(tf.nn.conv2d(tf.cast(y, tf.float16), half, strides=1, padding="SAME"), tf.float32),
    )


@case(f32("x", 1, 6, 10, 10), covers=("Convolution",))
def conv2d_channels_first() -> Function:
    """NCHW, which TensorFlow itself refuses on a CPU: transposed on the way in and out."""
    kernel = weights(3, 3, 6, 8)
    return lambda x: tf.transpose(
        tf.nn.conv2d(tf.transpose(x, [0, 2, 3, 1]), kernel, strides=1, padding="VALID"), [0, 3, 1, 2]
    )


@case(f32("x", 1, 9, 9, 4), f32("gradient", 1, 5, 5, 6))
def conv2d_backprop() -> Function:
    """The gradients of a convolution: kernel layouts a forward pass never shows."""
    kernel = weights(3, 3, 4, 6)
    return lambda x, gradient: (
        tf.compat.v1.nn.conv2d_backprop_input(x.shape, kernel, gradient, [1, 2, 2, 1], "SAME"),
        tf.compat.v1.nn.conv2d_backprop_filter(x, kernel.shape, gradient, [1, 2, 2, 1], "SAME"),
    )


@case(f32("x", 1, 8, 8, 3), f32("kernel", 3, 3, 3, 4))
def conv2d_fed_kernel() -> Function:
    """Nothing to lay out at build time: the weights arrive with the call."""
    return lambda x, kernel: tf.nn.conv2d(x, kernel, strides=1, padding="SAME")


@case(f32("x", 2, 13, 11, 4))
def pooling() -> Function:
    return lambda x: (
        tf.nn.max_pool2d(x, 3, 2, "SAME"),
        tf.nn.max_pool2d(x, (2, 3), (1, 2), "VALID"),
        tf.nn.avg_pool2d(x, 3, 2, "SAME"),
        tf.nn.avg_pool2d(x, 2, 2, "VALID"),
        tf.reduce_max(x, axis=[1, 2]),
    )


@case(f32("x", 2, 6, 6, 12))
def normalisations() -> Function:
    x = keras.Input((6, 6, 12))
    norms: list[Any] = [
        kl.LayerNormalization(),
        kl.GroupNormalization(4),
        kl.GroupNormalization(-1),  # instance normalisation
        kl.BatchNormalization(),
        kl.UnitNormalization(),
    ]
    return model(x, [norm(x) for norm in norms])


@case(f32("x", 1, 5, 5, 16))
def local_response_normalisation() -> Function:
    return lambda x: tf.nn.local_response_normalization(x, depth_radius=3, bias=1.5, alpha=0.3, beta=0.75)


@case(f32("x", 3, 40), ranges={"x": (-6.0, 6.0)})
def activations() -> Function:
    return lambda x: tuple(
        function(x)
        for function in (
            keras.activations.gelu,
            keras.activations.swish,
            tf.nn.softplus,
            tf.nn.elu,
            tf.nn.selu,
            tf.nn.leaky_relu,
            tf.nn.log_softmax,
            keras.activations.hard_sigmoid,
            keras.activations.mish,
        )
    )
