// A module behind standard input and output: one request a line, as JSON, one answer a line.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const bytes = (offset, count) => {
  const { buffer } = instance.exports.memory;
  return offset + count <= buffer.byteLength ? Buffer.from(buffer, offset, count) : null;
};

for await (const line of createInterface({ input: process.stdin })) {
  const { name, params, offset, count, data } = JSON.parse(line);
  let answer;
  if (params) {
    const result = instance.exports[name](...params);
    answer = { results: result === undefined ? [] : [result >>> 0] };
  } else if (data !== undefined) {
    const content = Buffer.from(data, "base64");
    const place = bytes(offset, content.length);
    place?.set(content);
    answer = { ok: place !== null };
  } else if (count !== undefined) {
    const place = bytes(offset, count);
    answer = { ok: place !== null, data: place?.toString("base64") };
  } else {
    answer = { ok: typeof instance.exports[name] === "function" };
  }
  console.log(JSON.stringify(answer));
}
