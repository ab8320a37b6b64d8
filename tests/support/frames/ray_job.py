"""``ray_job.py BLOCK PICTURES ANSWERS``: the page's example, and a folder of pictures in each other way Ray has.

On a cluster of this machine that runs two tasks at a time. Run with the Python package of age_gender on the path.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import age_gender
import numpy as np
import pyarrow.parquet
import ray
from age_gender.columns import files
from age_gender.function.description import parse_description
from age_gender.predictor import Predictor
from answers import write


class Traced(Predictor):
    """Says as well which process has answered a row, and how many models that has open."""

    def __call__(self, batch: Any) -> Any:
        from age_gender.predictor import _PROCESS

        answer = super().__call__(batch)
        rows = len(answer["path"])
        return answer | {"process": np.full(rows, os.getpid()), "opened": np.full(rows, len(_PROCESS._models))}


def pixels(batch: dict[str, Any]) -> dict[str, Any]:
    """The tensors that the model takes."""
    from age_gender.pictures import decoded

    image = parse_description(Path(age_gender.__file__).with_name("model.json").read_text()).image
    assert image is not None
    found, _ = decoded(files(batch, "bytes"), image)
    return {"path": batch["path"], "image": found.reshape(-1, image.height, image.width, 3)}


def main(block: str, pictures: str, answers: str) -> None:
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20, _temp_dir=folder
        )
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        exec(compile(Path(block).read_text(), block, "exec"), {})
        ways = {"page": pyarrow.parquet.read_table("build/mine/ages-ray").to_pylist()}
        source = ray.data.read_binary_files(pictures, include_paths=True, override_num_blocks=4).materialize()
        options: dict[str, Any] = {"pictures": "bytes", "errors": "error", "labels": True, "keep": ["path"]}
        ways["actors"] = source.map_batches(
            Traced, fn_constructor_kwargs=options, concurrency=2, num_cpus=1, batch_size=5
        ).take_all()
        ways["arrow"] = source.map_batches(Predictor(**options), batch_format="pyarrow", batch_size=7).take_all()
        ways["pandas"] = source.map_batches(Predictor(**options), batch_format="pandas", batch_size=9).take_all()
        right = source.filter(lambda row: "broken" not in row["path"])
        ways["tensors"] = right.map_batches(pixels).map_batches(Predictor(keep=["path"]), batch_size=8).take_all()
        write(answers, ways)
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
