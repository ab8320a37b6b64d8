/** brightness 7, compiled by coldforge to WebAssembly. */

/** An array of exactly a feed's numbers, or their bytes. */
type Given<Numbers> = Numbers | Uint8Array | ArrayBuffer;

/** What the model takes. Tensors are dense and row-major; a bool is a byte, 0 or 1. */
export interface Feeds {
  /** uint8 [1, 8, 8, 3]: 8×8 pixels of red, green, blue, 0..255, row by row; any scaling is in the model */
  "image": Given<Uint8Array>;
}

/** What the model gives. */
export interface Fetches {
  /** float32 [1, 2] */
  "light": Float32Array;
  /** float32 [1, 1] */
  "level": Float32Array;
  /** uint8 [1, 8, 8, 3] */
  "pixels": Uint8Array;
}

/** The labels of output tone. */
export type ToneLabel =
  | "light" | "dark";

/** A label and its probability. */
export interface Class<Label extends string = string> {
  label: Label;
  probability: number;
}

/** The outputs as the model describes them: the likeliest classes of a classification, else the numbers. */
export interface Outputs {
  "tone": Class<ToneLabel>[];
  "level": number[];
  "pixels": number[];
}

export interface Port {
  name: string;
  dtype: string;
  shape: number[];
  bytes: number;
  /** The dimensions whose size the data decides: `shape` has the most of each. */
  dynamic?: number[];
  /** The fetch that says how large this one is. */
  shape_fetch?: string;
}

/** What the module says of itself; the whole of it is model.json. */
export interface Description {
  abi: number;
  model: { name: string; version: string };
  batch: number;
  feeds: Port[];
  fetches: Port[];
  outputs: { name: string; fetch: string; kind: string; labels: string[]; top_k: number | null }[];
}

export class ModelError extends Error {}

/** The model, opened; its memory is its own. */
export class Model {
  constructor(exports: object);
  readonly describe: Description;
  /** One inference; throws ModelError for a feed that is missing or of another size. */
  run(feeds: Feeds): Fetches;
  /** `run`, and its outputs as the model describes them. */
  predict(feeds: Feeds): Outputs;
  /** Give back the model's working memory. */
  close(): void;
}

/** Load the model: from a URL or bytes; by default the module beside this file that the engine can run. */
export function load(source?: string | URL | ArrayBuffer | ArrayBufferView): Promise<Model>;
