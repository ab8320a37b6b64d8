#!/usr/bin/env bash
# `make lock`: resolves every requirements file again, with uv.
set -euo pipefail
cd "$(dirname "$0")/.."
# Where builds of PyTorch for CPUs are: a folder or a page.
TORCH_WHEELS=${TORCH_WHEELS:-https://download.pytorch.org/whl/cpu/torch/}

lock() { # FILE ARGUMENT...
    uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 "${@:2}" -o "$1"
}
packages() { # NAME "PACKAGE ..." ARGUMENT...
    tr ' ' '\n' <<< "$2" | lock "requirements/$1.txt" - "${@:3}"
}

lock requirements/build.txt --override requirements/build.overrides.txt --group build pyproject.toml
lock requirements/test.txt -c requirements/build.txt --group test --group lint
lock requirements/bench.txt -c requirements/build.txt --override requirements/bench.overrides.txt \
    pyproject.toml requirements/bench.in
packages wasm wasmtime -c requirements/test.txt
packages sam aws-sam-cli==1.170.0
packages aws "ministack==1.5.33 aws-sam-translator docker"
packages otel "opentelemetry-distro opentelemetry-exporter-otlp-proto-http opentelemetry-instrumentation-aws-lambda"
packages openai openai==3.54.0
packages checkov checkov==3.3.30
packages jax "jax==0.10.2 flatbuffers"
packages torch "torch==2.13.0 torchax==0.0.13 jax==0.10.2 flatbuffers transformers==5.24.0 sentence-transformers==6.2.0
pillow==13.0.0" --find-links "$TORCH_WHEELS" -c requirements/jax.txt
packages exchange "onnx==1.23.2 onnxruntime==1.32.0 ai-edge-litert==2.3.0 jax==0.10.2 flatbuffers xgboost-cpu==3.2.0
lightgbm==4.7.0 scikit-learn==1.9.1 skl2onnx==1.20.0 onnxmltools==1.16.0 skops==0.16.0 pandas==3.1.1" -c requirements/jax.txt \
    --override requirements/bench.overrides.txt
# KerasHub imports tensorflow-text only where it is installed, and that brings TensorFlow.
packages keras-hub "keras-hub==0.32.0 jax==0.10.2 flatbuffers pillow==13.0.0" -c requirements/jax.txt \
    -c requirements/build.txt --excludes <(echo tensorflow-text)
packages flax "flax==0.12.8 flatbuffers" -c requirements/jax.txt
packages tokenizers tokenizers==0.23.3 --no-deps
packages parquet pyarrow==26.0.1 --no-deps
packages frames "ray[data]==2.60.0 pyspark==4.3.0 pandas<3 pyarrow==26.0.1 numpy pillow" -c requirements/build.txt
packages docs mkdocs-material==9.8.1
lock layers/dependencies/requirements.txt layers/dependencies/requirements.in
echo awslambdaric==4.2.2 | lock builder/measure/local/requirements.txt -
