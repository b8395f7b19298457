// Runs JavaScript of a suite for `javascript.py`: a JSON line in for each request, a JSON line out for each answer.
// The suite's code has a thread of its own, so that the process ends with its parent whatever that code does.
"use strict";

const { createRequire } = require("node:module");
const { join, resolve } = require("node:path");
const { createInterface } = require("node:readline");
const { pathToFileURL } = require("node:url");
const { Worker, isMainThread, parentPort } = require("node:worker_threads");

if (isMainThread) {
  const worker = new Worker(__filename, { stdout: true, stderr: true });
  worker.stdout.pipe(process.stderr); // stdout is for answers
  worker.stderr.pipe(process.stderr);
  worker.on("message", (line) => process.stdout.write(`${line}\n`));
  worker.on("error", (error) => {
    process.stderr.write(`${(error && error.stack) || error}\n`);
    process.exit(1);
  });
  worker.on("exit", (code) => process.exit(code));
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => worker.postMessage(line));
  lines.on("close", () => process.exit(0));
} else {
  process.exit = (code) => {
    throw new Error(`process.exit(${code === undefined ? "" : code}) would end all code of the suite`);
  };
  parentPort.on("message", async (line) => {
    const request = JSON.parse(line);
    const progress = { runs: false };
    try {
      const value = await answer(request, progress);
      send({ id: request.id, value: value === undefined ? null : value });
    } catch (error) {
      send({ id: request.id, error: describe(error), parse: progress.runs && error instanceof SyntaxError });
    }
  });
}

function send(message) {
  parentPort.postMessage(JSON.stringify(message));
}

function describe(error) {
  const stack = error instanceof Error && error.stack ? error.stack : `thrown: ${String(error)}`;
  const hidden = (line) => line.includes(__filename) || line.includes("node:internal") || line.includes("<anonymous>)");
  const lines = stack.split("\n");
  return lines.filter((line, number) => number === 0 || !/^\s+at /.test(line) || !hidden(line)).join("\n");
}

async function answer(request, progress) {
  switch (request.do) {
    case "ping":
      return null;
    case "check":
      if (request.file) await load(request);
      else compile(request.code);
      return null;
    case "grade": {
      const judge = request.file ? await load(request) : compile(request.code);
      progress.runs = true;
      return await judge(request.output, request.context);
    }
    case "open":
      await provider(request);
      return null;
    case "call": {
      const { call } = await provider(request);
      return await call(request.prompt, request.context);
    }
  }
  throw new TypeError(`unknown request ${request.do}`);
}

// Code in the suite.

const AsyncFunction = (async () => {}).constructor;
const requireFromSuite = createRequire(join(process.cwd(), "suite.js"));
const compiled = new Map();

function compile(code) {
  if (!compiled.has(code)) compiled.set(code, compileAnew(code));
  return compiled.get(code);
}

function compileAnew(code) {
  const parameters = ["require", "output", "context"];
  let expression = null;
  try {
    expression = new AsyncFunction(...parameters, `return (${code.trim().replace(/;+$/, "")}\n)`);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  if (expression === null) {
    const body = new AsyncFunction(...parameters, code);
    if (!/\b(return|throw)\b/.test(code)) throw new SyntaxError("nothing is returned");
    return (output, context) => body(requireFromSuite, output, context);
  }
  return async (output, context) => {
    const value = await expression(requireFromSuite, output, context);
    if (typeof value === "function") return await value(output, context);
    const plain = value !== null && typeof value === "object" && !Array.isArray(value);
    return plain || typeof value === "number" ? value : Boolean(value); // as && and || mean it
  };
}

// Files.

async function load({ file, name }) {
  const module = await import(pathToFileURL(resolve(file)).href);
  const main = module.default === undefined ? module : module.default;
  const found = name ? module[name] || (main && main[name]) : main && main.default ? main.default : main;
  const callable = typeof found === "function" || (found && typeof found.callApi === "function");
  if (!callable) {
    const what = name ? `a function ${name}` : "a function, by `module.exports` or `export default`";
    throw new TypeError(`${file} does not export ${what}`);
  }
  return found;
}

const providers = new Map();

function provider(request) {
  const key = JSON.stringify([request.file, request.name, request.options]);
  if (!providers.has(key)) providers.set(key, openProvider(request));
  return providers.get(key);
}

async function openProvider(request) {
  const found = await load(request);
  const isClass = found.prototype && typeof found.prototype.callApi === "function";
  if (isClass || typeof found.callApi === "function") {
    const made = isClass ? new found(request.options) : found;
    return { call: (prompt, context) => made.callApi(prompt, context, {}) };
  }
  return { call: (prompt, context) => found(prompt, { ...context, config: request.options.config }, {}) };
}
