"""Models of other frameworks as a StableHLO program, made in environments of their own for JAX and PyTorch.

``framework_environment`` makes such an environment when it is first needed. ``framework_jobs`` has the jobs of its
processes in the sandbox: they describe a model, write its program, and answer the golden inputs with the framework.
Nothing here loads TensorFlow, and nothing outside of this package loads JAX or PyTorch.
"""
