// Runs JavaScript of a suite for `javascript.py`: a JSON line in for each request, a JSON line out for each answer. Answers
// begin with the mark that this process was started with, since the suite's code may write to stdout as well.
// The suite's code has a thread of its own, so that the process ends with its parent whatever that code does.
"use strict";

const { Module, createRequire, registerHooks } = require("node:module");
const { join, relative, resolve } = require("node:path");
const { createInterface } = require("node:readline");
const { pathToFileURL } = require("node:url");
const { inspect, types } = require("node:util");
const { Script } = require("node:vm");
const { Worker, isMainThread, parentPort } = require("node:worker_threads");

if (isMainThread) {
  const worker = new Worker(__filename, { stdout: true, stderr: true });
  worker.stdout.pipe(process.stderr);
  worker.stderr.pipe(process.stderr);
  const mark = process.argv[2];
  worker.on("message", (answer) => process.stdout.write(`\n${mark}${answer}\n`));
  worker.on("error", (error) => process.stderr.write(`${(error && error.stack) || error}\n`));
  // Follows an "error", too. Exiting at the error aborts now and then, since the thread is still ending.
  worker.on("exit", (code) => process.exit(code));
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => worker.postMessage(line));
  lines.on("close", () => process.exit(0));
} else {
  const { exit } = process;
  process.exit = (code) => {
    throw new Error(`process.exit(${code === undefined ? "" : code}) would end all code of the suite`);
  };
  // Node.js ends the thread by this function after an error that nobody caught.
  process.on("uncaughtExceptionMonitor", () => {
    process.exit = exit;
  });
  parentPort.on("message", async (line) => {
    const request = JSON.parse(line);
    try {
      const value = toJson(await answer(request));
      parentPort.postMessage(`{"id":${request.id},"value":${value}}`);
    } catch (error) {
      parentPort.postMessage(JSON.stringify({ id: request.id, error: describe(error) }));
    }
  });
}

// A value as JSON that Python reads, which knows NaN and Infinity. What JSON has no form for, such as a function, is null.
function toJson(value) {
  if (typeof value === "number") return String(value);
  const text = JSON.stringify(value);
  return text === undefined ? "null" : text;
}

// A judgement with text for a verdict or score that JSON would leave out, such as NaN or a function, so that it is refused.
function keepAll(judgement) {
  if (judgement === null || typeof judgement !== "object") return judgement;
  const texts = {};
  for (const key of ["pass", "passed", "score"]) {
    const value = judgement[key];
    if (value === undefined || value === null) continue;
    const json = JSON.stringify(value);
    if (json === undefined || json === "null") texts[key] = inspect(value);
  }
  if (Object.keys(texts).length === 0) return judgement;
  return { ...judgement, ...texts };
}

// What was thrown: its stack, its place in code of the suite, and `setup`, which is true if it says nothing about data.
// `denied` is true if the sandbox forbids what the code did.
function describe(error) {
  const lines = stackOf(error).split("\n").map((line) => line.replace(FRAME_OF_CODE, (_, at, number) => `${at}line ${number - 2}`));
  const isFrame = (line, number) => number > 0 && /^\s+at /.test(line);
  const isHidden = (line) => /<anonymous>\)|node:internal/.test(line) || line.includes(__filename);
  const stack = lines.filter((line, number) => !isFrame(line, number) || !isHidden(line));
  const innermost = stack.find(isFrame) || "";
  const [, line] = innermost.match(/ at (line \d+)$/) || [];
  const [, file] = innermost.match(/(?:file:\/\/|\(|at )((?:[A-Za-z]:)?[\\/][^()]+:\d+):\d+\)?$/) || [];
  const place = line || (file && relative(process.cwd(), file)) || "";
  const fromLoader = (lines.find(isFrame) || "").includes("node:internal/modules/");
  const caller = lines.find((line, number) => isFrame(line, number) && !line.includes("node:internal")) || "";
  const isEvaluated = /\(eval at |evalmachine\./.test(caller); // it may be the answer that asks for a module
  const setup = (fromLoader && !isEvaluated) || isUnreachable(error);
  const denied = types.isNativeError(error) && error.code === "ERR_ACCESS_DENIED";
  return { stack: stack.join("\n"), place, setup, denied };
}

function stackOf(error) {
  if (!types.isNativeError(error) || !error.stack) return inspect(error, { breakLength: Infinity });
  const start = error.stack.indexOf(String(error)); // `node:vm` shows a line of code first
  return error.stack.slice(Math.max(start, 0));
}

// A frame of code in the suite, before which `AsyncFunction` puts two lines.
const FRAME_OF_CODE = /^(\s+at )[^(]*\(eval at compileInSuite .*<anonymous>:(\d+):\d+\)$/;
const NETWORK = /^(ECONN\w+|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|UND_ERR_\w+)$/;

function isUnreachable(error) {
  if (!types.isNativeError(error)) return false;
  return NETWORK.test(error.code) || error.name === "TimeoutError" || isUnreachable(error.cause);
}

async function answer(request) {
  switch (request.do) {
    case "ping":
      return null;
    case "check":
      if (request.file) await load(request);
      else compile(request.code);
      return null;
    case "grade": {
      const judge = request.file ? await load(request) : compile(request.code);
      return keepAll(await judge(request.output, request.context));
    }
    case "make": {
      const made = await load(request, { data: true });
      return typeof made === "function" ? await made(...request.arguments) : made;
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

const PLACE = join(process.cwd(), "suite.cjs"); // need not exist: files and packages are found from its folder
const COMPILE = `exports.compileInSuite = function compileInSuite(body) {
  const AsyncFunction = (async () => {}).constructor;
  return new AsyncFunction("require", "output", "context", body);
};`;
const requireFromSuite = createRequire(PLACE);
const { compileInSuite } = moduleInSuite(COMPILE); // `import()` is resolved from where a function is compiled
const compiled = new Map();

function moduleInSuite(source) {
  const module = new Module(PLACE);
  module._compile(source, PLACE);
  return module.exports;
}

function compile(code) {
  if (!compiled.has(code)) compiled.set(code, compileCode(code));
  return compiled.get(code);
}

function compileCode(code) {
  const whole = code.trim().replace(/;+$/, "");
  const expression = tryCompile(`return (${whole}\n)`) || returnLast(whole);
  if (expression === null) {
    const body = compileInSuite(code);
    if (!/\b(return|throw)\b/.test(code)) throw new SyntaxError("nothing is returned");
    return (output, context) => body(requireFromSuite, output, context);
  }
  return async (output, context) => {
    const value = await expression(requireFromSuite, output, context);
    if (typeof value === "function") return await value(output, context);
    const plain = value !== null && typeof value === "object" && !Array.isArray(value);
    const counts = plain || typeof value === "number" || (typeof value === "string" && value !== "");
    return counts ? value : Boolean(value); // as && and || mean it
  };
}

function tryCompile(body) {
  try {
    return compileInSuite(body);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

// Lines that return nothing themselves: a function of them that returns their last expression; null if there is none.
function returnLast(code) {
  try {
    new Script(code); // which may have no `return` outside functions
  } catch {
    return null;
  }
  for (let at = code.length - 1; at >= 0; at -= 1) {
    if (code[at] !== "\n" && code[at] !== ";") continue;
    const before = code.slice(0, at + 1);
    const last = code.slice(at + 1);
    const goesOn = code[at] === "\n" && !/;\s*$/.test(before) && /^\s*[([/+*.`-]/.test(last);
    if (goesOn || !last.trim() || tryCompile(before) === null) continue;
    const compiled = tryCompile(`${before}return (${last}\n)`);
    if (compiled !== null) return compiled;
  }
  return null;
}

// Files.

// In TypeScript, `./limits` means limits.ts or limits/index.ts, and `./limits.mjs` means limits.mts. Node.js itself looks
// for none of these.
function resolveInTypeScript(specifier, context, next) {
  const isRelative = specifier.startsWith("./") || specifier.startsWith("../");
  const isOfTypeScript = /\.[cm]?ts$/.test(context.parentURL);
  try {
    return next(specifier, context);
  } catch (error) {
    if (!isRelative || !isOfTypeScript) throw error;
    const source = specifier.replace(/\.([cm]?)js$/, ".$1ts");
    const others = source === specifier ? [`${specifier}.ts`, `${specifier}/index.ts`] : [source];
    for (const other of others) {
      try {
        return next(other, context);
      } catch {
        continue;
      }
    }
    throw error;
  }
}
let isPrepared = false;

function prepareForTypeScript() {
  if (!process.features.typescript) {
    throw new TypeError(`TypeScript needs Node.js 22.10 or newer, and this is ${process.version}`);
  }
  if (registerHooks && !isPrepared) registerHooks({ resolve: resolveInTypeScript }); // Node.js 22.15
  isPrepared = true;
}

async function load({ file, name }, { data = false } = {}) {
  if (/\.[cm]?ts$/.test(file)) prepareForTypeScript();
  const module = await import(pathToFileURL(resolve(file)).href);
  const main = module.default === undefined ? module : module.default;
  const found = name ? module[name] || (main && main[name]) : main && main.default ? main.default : main;
  const callable = typeof found === "function" || (found && typeof found.callApi === "function");
  if (!callable && !(data && found !== undefined)) {
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
