// Threads of Node.js: workers that each compute, compress (on the thread pool) and report by message.
// An argument: how many times the work.
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

const WORKERS = 4;
const TURNS = 60 * (process.argv[2] ?? 1);

if (isMainThread) {
  const results = await Promise.all(Array.from({ length: WORKERS }, (_, i) => new Promise((resolve, reject) => {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: i, argv: process.argv.slice(2) });
    worker.once('message', resolve);
    worker.once('error', reject);
  })));
  console.log(`workers ${results.length}, sum ${results.reduce((sum, n) => sum + n, 0)}`);
} else {
  const compress = promisify(gzip);
  let sum = 0;
  for (let turn = 0; turn < TURNS; turn++) {
    const text = Array.from({ length: 2000 }, (_, i) => (i * i + turn + workerData).toString(36)).join(' ');
    const packed = await compress(text);
    sum += text.length + (packed.length > 0 ? 1 : 0);
  }
  parentPort.postMessage(sum);
}
