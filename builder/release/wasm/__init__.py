"""From a model to model.wasm: XLA, which cannot compile for WebAssembly, gives LLVM IR, which is compiled again."""
