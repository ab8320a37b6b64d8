// One WebAssembly engine in Node with one network: what benchmarks/worker.py is for the native ones, and the same
// conversation. node worker.mjs REQUEST (JSON); then a command a line on standard input, and a reply to each.
import { readFileSync, writeFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const request = JSON.parse(process.argv[2]);
const { feed: shape, outputs } = JSON.parse(readFileSync(request.ready));
console.log = console.warn = console.error; // standard output is for replies

const ENGINES = {
  async coldforge() {
    const { load } = await import(pathToFileURL(join(dirname(request.model), "predict.mjs")).href);
    const model = await load(pathToFileURL(request.model));
    const { feeds, fetches } = model.describe;
    return {
      feed: (data) => ({ [feeds[0].name]: data }),
      run: async (feed) => model.run(feed),
      raw: async (answers) => fetches.map((fetch) => answers[fetch.name]),
    };
  },
  async ort() {
    const ort = await import("onnxruntime-web");
    ort.env.wasm.numThreads = 1;
    const session = await ort.InferenceSession.create(readFileSync(request.model), {
      executionProviders: ["wasm"], graphOptimizationLevel: "all",
    });
    const [name] = session.inputNames;
    return {
      feed: (data) => ({ [name]: new ort.Tensor("float32", floats(data), shape) }),
      run: (feed) => session.run(feed),
      raw: async (answers) => session.outputNames.map((output) => answers[output].data),
    };
  },
  async tfjs() {
    const tf = await import("@tensorflow/tfjs-core");
    const { loadGraphModel } = await import("@tensorflow/tfjs-converter");
    const wasm = await import("@tensorflow/tfjs-backend-wasm");
    wasm.setWasmPaths(join(here, "node_modules/@tensorflow/tfjs-backend-wasm/dist/"));
    wasm.setThreadsCount(1);
    if (!(await tf.setBackend("wasm"))) throw new Error("the wasm backend does not start");
    const folder = dirname(request.model);
    const json = JSON.parse(readFileSync(request.model));
    const manifest = json.weightsManifest;
    const model = await loadGraphModel({
      load: async () => ({
        modelTopology: json.modelTopology,
        signature: json.signature,
        weightSpecs: manifest.flatMap((group) => group.weights),
        weightData: new Uint8Array(Buffer.concat(manifest.flatMap((g) => g.paths).map((p) => readFileSync(join(folder, p))))).buffer,
      }),
    });
    return {
      feed: (data) => tf.tensor(floats(data), shape),
      run: async (feed) => {
        const found = model.execute(feed, outputs);
        const tensors = Array.isArray(found) ? found : [found];
        const answers = await Promise.all(tensors.map((t) => t.data()));
        tensors.forEach((t) => t.dispose());
        return answers;
      },
      raw: async (answers) => answers,
    };
  },
};

function floats(data) {
  return new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength));
}

const reply = (message) => writeSync(1, `${JSON.stringify(message)}\n`);
const bytes = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

// Wall-clock seconds of each run, after one that does not count.
async function time(engine, feed, least, budget) {
  await engine.run(feed);
  const seconds = [];
  const end = performance.now() + 1e3 * budget;
  while (seconds.length < least || performance.now() < end) {
    const begin = performance.now();
    await engine.run(feed);
    seconds.push((performance.now() - begin) / 1e3);
  }
  return seconds;
}

try {
  const begin = performance.now();
  const engine = await ENGINES[request.cls]();
  const loaded = performance.now();
  const feed = engine.feed(readFileSync(request.samples[0]));
  await engine.raw(await engine.run(feed));
  reply({ load_ms: loaded - begin, first_ms: performance.now() - loaded });
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    if (command.do === "answer") {
      const answers = await engine.raw(await engine.run(engine.feed(readFileSync(command.sample))));
      answers.forEach((answer, number) => writeFileSync(`${command.to}.${number}`, bytes(answer)));
      reply({ answers: answers.length });
    } else {
      reply({ seconds: await time(engine, feed, command.least, command.budget) });
    }
  }
} catch (error) {
  reply({ error: `${error.name}: ${error.message}`.slice(0, 400) });
}
