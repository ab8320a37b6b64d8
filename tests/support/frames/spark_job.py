"""``spark_job.py BLOCK PICTURES ANSWERS``: the page's example, and a folder of pictures in each other way Spark has.

Run with the Python package of age_gender on the path.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow.parquet
from age_gender.predictor import Predictor
from answers import write
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, pandas_udf


def main(block: str, pictures: str, answers: str) -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    exec(compile(Path(block).read_text(), block, "exec"), {})
    ways = {"page": pyarrow.parquet.read_table("build/mine/ages-spark").to_pylist()}

    source = session.read.format("binaryFile").load(pictures).select("path", "content").repartition(4).cache()
    predict = Predictor(pictures="content", errors="error", labels=True, keep=["path"])
    numbers = "gender array<float>, age array<float>"
    schema = f"path string, {numbers}, gender_label string, gender_probability float, "
    schema += "age_label string, age_probability float, error string"
    ways["pandas"] = rows(source.mapInPandas(predict.each, schema))

    decoding = Predictor(pictures="content", errors="error")

    @pandas_udf("array<float>")
    def gender(content: pandas.Series) -> pandas.Series:
        return decoding(pandas.DataFrame({"content": content}))["gender"]

    ways["function"] = rows(source.select("path", gender(col("content")).alias("gender")))

    def pixels(batches: Any) -> Any:
        from age_gender.columns import files
        from age_gender.pictures import decoded
        from age_gender.predictor import _PROCESS, LIBRARY

        for batch in batches:
            _, description = _PROCESS.model(str(LIBRARY), 1)
            found, _ = decoded(files(batch, "content"), description.image)
            yield pandas.DataFrame({"path": batch["path"], "image": [row.tobytes() for row in found]})

    right = source.where(~col("path").contains("broken")).mapInPandas(pixels, "path string, image binary")
    ways["tensors"] = rows(right.mapInArrow(Predictor(keep=["path"]).each, f"path string, {numbers}"))
    write(answers, ways)
    session.stop()


def rows(frame: Any) -> list[dict[str, Any]]:
    return [
        {name: np.float32(value) if isinstance(value, list) else value for name, value in row.asDict().items()}
        for row in frame.collect()
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
