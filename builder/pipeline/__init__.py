"""Stages of a build, each in the file of its name. A stage gets the workspace and the results of those before it.

In the order the data flows:

import_model     the trained model's file becomes a frozen graph, with TensorFlow's own answers, after the preflight
compile_graph    XLA makes kernels for the target
resolve_options  measurements resolve open options (``build_candidate``, ``calibrate_layers``), and ``read_tuning`` adds
                 the results of an earlier measurement
lower_program    XLA's thunks become steps, memory and C
verify_library   the library's answers are compared with TensorFlow's
fallbacks        the C becomes the library; lowering, linking and verifying are repeated with less optimisation until a
                 library agrees
pack_bundle      the library becomes the bundle

``build_bundle`` runs all of them for a bundle, ``builder.release.wasm.build_module`` for a WebAssembly module. Other
commands run those they need: ``tune``, ``explain``, ``accuracy``, ``export``, ``weights``, ``selftest``.
"""
