"""TensorFlow Lite's models: a graph as a JAX function, answered by LiteRT in an environment with both."""
