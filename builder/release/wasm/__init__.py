"""From a model to model.wasm: the kernels of XLA, which cannot compile for WebAssembly, recompiled from its LLVM IR."""
