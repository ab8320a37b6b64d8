// A model compiled by coldforge to WebAssembly, for Node (18 and newer), Deno, Bun and browsers; no dependencies.
//
//   import { load } from "./predict.mjs";
//   const model = await load();                    // model.wasm beside this file
//   model.describe;                                // names, shapes, dtypes, labels
//   model.run({ image: pixels });                  // { predictions: Float32Array }
//   model.predict({ image: pixels });              // { digit: [{ label: "7", probability: 0.99 }, ...] }
//
// From a shell: node predict.mjs FILE..., one file of raw little-endian bytes per feed (or one picture of the model's
// size: a binary PPM or PGM, or JPEG or PNG where the package sharp is installed), prints what predict() returns.

const ARRAYS = {
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array,
  uint32: Uint32Array, int32: Int32Array, uint64: BigUint64Array, int64: BigInt64Array,
  float32: Float32Array, float64: Float64Array,
};

// (module (func (result v128) (v128.const i32x4 0 0 0 0)))
const SIMD_PROBE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 22, 1, 20, 0, 253, 12, ...new Array(16).fill(0), 11,
]);

export class ModelError extends Error {}

/** Load a model: from a URL or bytes; by default model.wasm, or model-baseline.wasm where the engine has no SIMD. */
export async function load(source) {
  source ??= new URL(WebAssembly.validate(SIMD_PROBE) ? "model.wasm" : "model-baseline.wasm", import.meta.url);
  const { instance } = await WebAssembly.instantiate(await bytesOf(source), {});
  return new Model(instance.exports);
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:") return (await import("node:fs/promises")).readFile(url);
  const response = await fetch(url);
  if (!response.ok) throw new ModelError(`${url}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

export class Model {
  #wasm; #model; #feeds; #fetches; #arrays;

  constructor(exports) {
    this.#wasm = exports;
    exports._initialize?.();
    if (exports.cf_abi_version() !== 1) throw new ModelError(`this module's ABI is ${exports.cf_abi_version()}, not 1`);
    this.describe = JSON.parse(this.#text(exports.cf_describe()));
    const place = this.#allocate(4);
    const status = exports.cf_open(0, place);
    if (status !== 0) throw new ModelError(this.#text(exports.cf_last_error(0)));
    this.#model = this.#view(Uint32Array, place, 1)[0];
    exports.cf_free(place);
    const bind = (port) => ({ ...port, address: this.#allocate(port.bytes), Type: ARRAYS[port.dtype] });
    this.#feeds = this.describe.feeds.map(bind);
    this.#fetches = this.describe.fetches.map(bind);
    this.#arrays = [this.#feeds, this.#fetches].map((ports) => {
      const array = this.#allocate(8 * ports.length);
      this.#view(Uint32Array, array, 2 * ports.length).set(ports.flatMap((p) => [p.address, p.bytes]));
      return array;
    });
  }

  /** One inference. feeds: name to typed array (or ArrayBuffer) of the feed's bytes. Returns name to a new typed array. */
  run(feeds) {
    if (!this.#model) throw new ModelError("the model is closed");
    for (const port of this.#feeds) {
      const given = feeds[port.name];
      if (given === undefined) throw new ModelError(`there is no feed ${port.name}`);
      const bytes = ArrayBuffer.isView(given)
        ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength)
        : new Uint8Array(given);
      if (bytes.length !== port.bytes) {
        throw new ModelError(`feed ${port.name} takes ${port.bytes} bytes (${port.dtype} [${port.shape}]), not ${bytes.length}`);
      }
      this.#view(Uint8Array, port.address, port.bytes).set(bytes);
    }
    const [inputs, outputs] = this.#arrays;
    const status = this.#wasm.cf_run(this.#model, inputs, this.#feeds.length, outputs, this.#fetches.length);
    if (status !== 0) throw new ModelError(this.#text(this.#wasm.cf_last_error(this.#model)));
    const found = Object.fromEntries(
      this.#fetches.map((p) => [p.name, this.#view(p.Type, p.address, p.bytes / p.Type.BYTES_PER_ELEMENT).slice()]),
    );
    for (const { name, shape_fetch: shape } of this.#fetches) {  // where the data decides: what is there
      if (shape) found[name] = found[name].subarray(0, found[shape].reduce((count, size) => count * size, 1));
    }
    return found;
  }

  /** run(), and its outputs as the model describes them: the likeliest labels of a classification, else the numbers. */
  predict(feeds) {
    const fetches = this.run(feeds);
    const ports = Object.fromEntries(this.#fetches.map((port) => [port.name, port]));
    return Object.fromEntries(this.describe.outputs.map((o) => [o.name, ranked(o, fetches[o.fetch], ports[o.fetch])]));
  }

  /** Give back the model's working memory. */
  close() {
    if (!this.#model) return;
    this.#wasm.cf_close(this.#model);
    for (const port of [...this.#feeds, ...this.#fetches]) this.#wasm.cf_free(port.address);
    for (const array of this.#arrays) this.#wasm.cf_free(array);
    this.#model = 0;
  }

  #allocate(size) {
    const address = this.#wasm.cf_alloc(size);
    if (address === 0) throw new ModelError(`there are no ${size} bytes of memory left`);
    return address;
  }

  // Made anew for every use: the memory's buffer is another one after it has grown.
  #view(Type, address, length) {
    return new Type(this.#wasm.memory.buffer, address >>> 0, length);
  }

  #text(address) {
    const memory = new Uint8Array(this.#wasm.memory.buffer);
    return new TextDecoder().decode(memory.subarray(address, memory.indexOf(0, address)));
  }
}

function ranked(output, values, port) {
  const numbers = Array.from(values, (v) => (typeof v === "bigint" ? v.toString() : v));
  if (output.kind !== "classification") return numbers;
  const open = port.shape_fetch !== undefined; // the data decides how many rows there are
  const size = open ? port.shape.at(-1) : output.labels.length || numbers.length;
  const rows = [];
  for (let at = 0; at < numbers.length; at += size) {
    const row = numbers.slice(at, at + size).map((p, i) => ({ label: output.labels[i] ?? String(i), probability: p }));
    rows.push(row.sort((a, b) => b.probability - a.probability).slice(0, output.top_k ?? row.length));
  }
  return rows.length === 1 && !open ? rows[0] : rows;
}

/** The pixels of a picture, which must have the size the model takes; a binary PPM or PGM its colours, too. */
async function pixels(file, image) {
  if (file[0] !== 0x50) return decoded(file, image);
  const text = new TextDecoder("latin1").decode(file.subarray(0, 4096));
  const header = /^P([56])(?:\s|#.*\n)+?(\d+)(?:\s|#.*\n)+?(\d+)(?:\s|#.*\n)+?(\d+)\s/.exec(text);
  const [, kind, width, height, most] = header?.map(Number) ?? [];
  if (most !== 255) throw new ModelError("the picture is no binary PPM or PGM of 8 bits");
  requireFit(image, width, height, kind === 6 ? "rgb" : "grey");
  return file.slice(header[0].length);
}

function requireFit(image, width, height, mode) {
  if (width !== image.width || height !== image.height || mode !== image.mode) {
    throw new ModelError(`the picture is ${width}×${height} ${mode}; the model takes ${image.width}×${image.height} ${image.mode}`);
  }
}

/** JPEG, PNG and others, by the package sharp; opacity is left out. Grey is weighed as ITU-R BT.601 has it. */
async function decoded(file, image) {
  const sharp = await import("sharp").catch(() => {
    throw new ModelError("the picture is no binary PPM or PGM of 8 bits; `npm install sharp` to read JPEG and PNG");
  });
  const { data, info } = await sharp.default(file).raw().toBuffer({ resolveWithObject: true }).catch((error) => {
    throw new ModelError(`the picture is no binary PPM or PGM of 8 bits, and sharp cannot read it: ${error.message}`);
  });
  requireFit(image, info.width, info.height, image.mode);
  const wanted = image.mode === "grey" ? 1 : 3, found = new Uint8Array(info.width * info.height * wanted);
  for (let i = 0; i < info.width * info.height; i++) {
    const [r, g, b] = data.subarray(i * info.channels, (i + 1) * info.channels);
    const grey = info.channels < 3;
    if (wanted === 1) found[i] = grey ? r : (r * 19595 + g * 38470 + b * 7471 + 32768) >> 16;
    else found.set(grey ? [r, r, r] : [r, g, b], i * 3);
  }
  return found;
}

async function main(paths) {
  const { readFile } = await import("node:fs/promises");
  const model = await load();
  const { feeds, image } = model.describe;
  if (paths.length !== feeds.length) {
    throw new ModelError(`give ${feeds.length} file(s): ${feeds.map((f) => `${f.name} ${f.dtype}[${f.shape}]`).join(", ")}`);
  }
  const data = await Promise.all(paths.map((path) => readFile(path)));
  const given = await Promise.all(feeds.map(async (feed, i) => {
    const isPicture = image?.feed === feed.name && data[i].length !== feed.bytes;
    return [feed.name, isPicture ? await pixels(data[i], image) : data[i]];
  }));
  console.log(JSON.stringify(model.predict(Object.fromEntries(given)), null, 1));
}

if (globalThis.process?.argv?.[1] && import.meta.url === (await import("node:url")).pathToFileURL(process.argv[1]).href) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(`predict: ${error.message}`);
    process.exitCode = 1;
  });
}
