"""The stages of a build, each in the file of its name. A stage gets the workspace and the results of those before it.

In the order the data flows:

imported    the trained model's file, found and frozen; the preflight; TensorFlow's own answers
compile     XLA's kernels for the target
settle      what only measuring can answer (``choose``, ``candidate``, ``timed``, ``calibrate``), and ``tuning``
lower       thunks to steps, buffers and C, by one of several attempts
link        the library, or the archive for static linking
verify      the library's answers against TensorFlow's
attempts    lower, link and verify, until one agrees
pack        the bundle

``builder.pipeline`` is the way of a bundle through them, ``builder.wasm.build`` that of a WebAssembly module. Other
commands take those they need: ``tune``, ``explain``, ``accuracy``, ``export``, ``weights``, ``selftest``.
"""
