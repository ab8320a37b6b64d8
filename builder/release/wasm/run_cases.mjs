// Runs a module on cases: feeds come in and fetches go out as their bytes, case after case.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { load } from "./predict.mjs";
const [wasm, cases, feeds, answers] = process.argv.slice(2);
const model = await load(pathToFileURL(wasm));
const content = readFileSync(feeds);
const out = [];
let at = 0;
for (let i = 0; i < Number(cases); i++) {
  const named = {};
  for (const feed of model.describe.feeds) {
    named[feed.name] = content.subarray(at, at + feed.bytes);
    at += feed.bytes;
  }
  const fetches = model.run(named);
  for (const fetch of model.describe.fetches) out.push(new Uint8Array(fetches[fetch.name].buffer));
}
writeFileSync(answers, Buffer.concat(out));
console.log(JSON.stringify(model.describe));
