"""The Python package's Predictor in several processes, under Ray and Spark, beside the same job on ONNX Runtime."""
