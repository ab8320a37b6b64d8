"""Models of other frameworks, as one StableHLO program: what runs in JAX's and PyTorch's own environments.

``environment`` makes such an environment when it is first needed. ``jobs`` has what its processes do, in the sandbox:
they say what a model takes and gives, write its program, and answer the golden inputs with the framework itself.
Nothing here loads TensorFlow, and nothing outside of this package loads JAX or PyTorch.
"""
