"""ONNX models: a graph as a JAX function, run and answered in an environment with JAX and ONNX Runtime."""
