"""Numbers that TensorFlow computes otherwise than XLA: casts and absolute values on x86, and special functions."""

from __future__ import annotations

import math
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import FLOATS, WHOLE, Op, rewrites


@rewrites("Cast", any_rows=True, types={"SrcT": FLOATS, "DstT": ("int32", "int64", "uint32")})
def rewrite_cast(op: Op, x: Any) -> Any:
    """Make NaN, and floats that do not fit into int32 or int64, the type's least number, as TensorFlow does on x86.

    XLA takes the nearest bound, and 0 for NaN. In uint32, numbers below 0 have the bits that they have in int32.
    """
    dtype = op.get_attribute("DstT")
    wide = x if x.dtype.size >= 4 else tf.cast(x, tf.float32)
    if dtype == tf.uint32:
        return tf.where((wide >= -(2.0**31)) & (wide < 2.0**32), tf.cast(tf.cast(wide, tf.int64), dtype), 2**31)
    return tf.where(wide < -float(dtype.min), tf.cast(wide, dtype), dtype.min)


@rewrites("Abs", any_rows=True, types={"T": WHOLE})
def rewrite_abs(op: Op, x: Any) -> Any:
    """Take the larger of a whole number and its negative.

    XLA relies on squares that are not negative, though they overflow. The same numbers.
    """
    return tf.maximum(x, -x)


# The inverse of the normal distribution: quotients of polynomials, the highest power first, for the middle, for both
# tails, and for their ends. Coefficients: Cephes' ndtri.c (S. L. Moshier, netlib.org/cephes; its README: "may be used
# freely"), which TensorFlow uses as well.
_MIDDLE = (
    (-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
     -1.23916583867381258016e0),
    (1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1, -2.25462687854119370527e2,
     2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1, -1.18331621121330003142e0),
)  # fmt: skip
_TAIL = (
    (4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1,
     1.46849561928858024014e1, 2.18663306850790267539e0, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
     -8.57456785154685413611e-4),
    (1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1, 1.50425385692907503408e1,
     2.50464946208309415979e0, -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4),
)  # fmt: skip
_END = (
    (3.23774891776946035970e0, 6.91522889068984211695e0, 3.93881025292474443415e0, 1.33303460815807542389e0,
     2.01485389549179081538e-1, 1.23716634817820021358e-2, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
     6.23974539184983293730e-9),
    (1.0, 6.02427039364742014255e0, 3.67983563856160859403e0, 1.37702099489081330271e0, 2.16236993594496635890e-1,
     1.34204006088543189037e-2, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9),
)  # fmt: skip


@rewrites("BesselI0", "BesselI1")
def rewrite_bessel(op: Op, x: Any) -> Any:
    """Multiply the function that is scaled by exp(-|x|). Off by a few units in the last place."""
    scaled = {"BesselI0": tf.math.bessel_i0e, "BesselI1": tf.math.bessel_i1e}[op.type]
    return tf.exp(tf.abs(x)) * scaled(x)


@rewrites("Ndtri")
def rewrite_ndtri(op: Op, p: Any) -> Any:
    """Use TensorFlow's own formula: XLA's gives -infinity below 1e-7. Off by a few units in the last place."""

    def quotient(polynomials: Any, x: Any) -> Any:
        over, under = (tf.math.polyval([tf.constant(c, x.dtype) for c in one], x) for one in polynomials)
        return over / under

    edge = math.exp(-2)
    high = p > 1 - edge
    low = tf.where(high, 1 - p, p)
    centred = low - 0.5
    square = centred * centred
    middle = math.sqrt(2 * math.pi) * (centred + centred * square * quotient(_MIDDLE, square))
    z = tf.sqrt(-2 * tf.math.log(low))
    inverse = 1 / z
    correction = tf.where(z < 8, quotient(_TAIL, inverse), quotient(_END, inverse))
    tail = tf.math.log(z) * inverse + correction * inverse - z
    quantiles = tf.where(low > edge, middle, tf.where(tf.equal(low, 0), tf.cast(-math.inf, p.dtype), tail))
    return tf.where(high, -quantiles, quantiles)
