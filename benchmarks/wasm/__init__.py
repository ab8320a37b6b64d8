"""model.wasm against native code and against other WebAssembly engines: ``make bench-wasm``."""
