"""Resizing that is linear in the pixels, as two products with constant matrices: one for rows, one for columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.importers.rewrites.op import Op, Rewrite
from builder.importers.tf import reference_session, tensorflow

Matrix = NDArray[np.float32]


def resize(op: Op, images: Any, size: Any) -> Any:
    """Any numeric [batch, height, width, channels] to float32, of constant size, by two products with matrices.

    Off by a few units in the last place of the largest pixel: TensorFlow sums in another order.
    """
    attributes = {"align_corners": op.attr("align_corners")}
    if op.type == "ResizeBicubic":
        attributes["half_pixel_centers"] = op.attr("half_pixel_centers")
    method = getattr(tensorflow().raw_ops, op.type)
    height, width = map(int, op.constant(1))
    rows = _matrix(images.shape[1], lambda eye: method(images=eye, size=[height, 1], **attributes))
    columns = _matrix(images.shape[2], lambda eye: method(images=eye, size=[width, 1], **attributes))
    return _both(images, rows, columns)


def scale_and_translate(op: Op, images: Any, size: Any, scale: Any, translation: Any) -> Any:
    """The same, of constant scale and translation."""
    method = tensorflow().raw_ops.ScaleAndTranslate
    attributes = {"kernel_type": op.attr("kernel_type"), "antialias": op.attr("antialias")}

    def matrix(axis: int) -> Matrix:
        length, by, moved = (op.constant(i)[axis] for i in (1, 2, 3))
        return _matrix(
            images.shape[1 + axis],
            lambda eye: method(
                images=eye, size=[int(length), 1], scale=[by, 1.0], translation=[moved, 0.0], **attributes
            ),
        )

    return _both(images, matrix(0), matrix(1))


def _matrix(length: int, method: Callable[[Any], Any]) -> Matrix:
    """[new length, ``length``]: what ``method`` makes of an identity is what it does to any column of pixels."""
    tf = tensorflow()
    with tf.Graph().as_default() as graph:
        resized = method(tf.reshape(tf.eye(length), (1, length, 1, length)))
        with reference_session(graph) as session:
            matrix: Matrix = session.run(resized)[0, :, 0, :]
    return matrix


def _both(images: Any, rows: Matrix, columns: Matrix) -> Any:
    """``images`` [batch, y, x, channel] times ``rows`` [Y, y] and ``columns`` [X, x], the cheaper product first."""
    tf = tensorflow()
    pixels = tf.cast(images, tf.float32)
    # Columns first touch every row that there is; rows first touch every column.
    rows_first = rows.shape[0] * (rows.shape[1] + columns.shape[0]) * columns.shape[1]
    columns_first = columns.shape[0] * (columns.shape[1] + rows.shape[0]) * rows.shape[1]
    products = [("Yy,byxc->bYxc", rows), ("Xx,byxc->byXc", columns)]
    for equation, matrix in products if rows_first <= columns_first else reversed(products):
        pixels = tf.einsum(equation, tf.constant(matrix), pixels)
    return pixels


REWRITES: Mapping[str, Rewrite] = {
    "ResizeArea": resize,
    "ResizeBicubic": resize,
    "ScaleAndTranslate": scale_and_translate,
}
