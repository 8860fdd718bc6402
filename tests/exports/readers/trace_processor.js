"use strict";
// Perfetto's trace processor, as Perfetto's page has it: WebAssembly that answers requests in a worker. Takes the folder
// of the page, requests from standard input (TraceProcessorRpcStream), and writes the answers to standard output.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const read = (name) => fs.readFileSync(path.join(folder, path.basename(name)));

// Of a browser's worker what is asked for. A file that is read at once makes it ready at once.
class XMLHttpRequest {
  open(_, name) {
    this.name = name;
  }
  send() {
    this.response = new Uint8Array(read(this.name)).buffer;
  }
}
const worker = { location: { href: "https://trace.processor/engine_bundle.js" } };
const names = { self: worker, WorkerGlobalScope: Object, XMLHttpRequest, importScripts() {}, console: { ...console, log() {} }, process: undefined };
vm.compileFunction(read("engine_bundle.js").toString(), Object.keys(names))(...Object.values(names));

const port = { postMessage: (bytes) => process.stdout.write(bytes) };
setTimeout(() => {
  worker.onmessage({ data: port });
  port.onmessage({ data: new Uint8Array(fs.readFileSync(0)) });
});
