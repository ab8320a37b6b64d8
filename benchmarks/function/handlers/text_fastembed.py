"""A sentence encoder by fastembed, one thread, with its model in the function's folder."""

from __future__ import annotations

from typing import Any

from fastembed import TextEmbedding
from texts import FOLDER, serve

model = TextEmbedding("sentence-transformers/all-MiniLM-L6-v2", threads=1, specific_model_path=FOLDER)


def infer(text: str) -> Any:
    return next(iter(model.embed([text])))


lambda_handler = serve(infer)
