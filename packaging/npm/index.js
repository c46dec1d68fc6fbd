'use strict';

// A Kubernetes API server for tests: see README.md.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

// Message that the server logs when it is ready, in text and in JSON.
const READY = '"Ready"';
const IN_USE = 'Address already in use';
// Ports that are tried before it is an error that none is free: another process may take one between being found free
// and being bound.
const ATTEMPTS = 20;
// Milliseconds after which a server that does not stop is killed: longer than its requests may take.
const STOP_MILLISECONDS = 70_000;

const program = path.join(__dirname, `linux-${process.arch}`, 'kube-apiserver');

async function start({ flags = [], dataDir, timeout = 60_000 } = {}) {
  const temporary = dataDir === undefined;
  const folder = temporary ? fs.mkdtempSync(path.join(os.tmpdir(), 'kevel-')) : path.resolve(dataDir);
  fs.mkdirSync(folder, { recursive: true });
  const storage = temporary ? 'memory' : 'embedded';
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const port = await freePort();
      const given = [`--data-dir=${folder}`, `--storage=${storage}`, '--bind-address=127.0.0.1', `--secure-port=${port}`];
      const started = run([...given, ...flags]);
      if (await isReady(started, timeout)) {
        return server(started, port, folder, temporary);
      }
    }
    throw new Error('no port is free');
  } catch (error) {
    if (temporary) fs.rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

// The process with its log so far, and a promise of its end.
function run(args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const started = { child, log: '', changed: () => {} };
  const add = (text) => {
    started.log += text;
    started.changed();
  };
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', add);
  started.kill = () => child.kill('SIGKILL');
  process.on('exit', started.kill);
  started.ended = new Promise((resolve) => {
    child.on('error', (error) => add(`${error}\n`));
    child.on('close', (code, signal) => {
      process.removeListener('exit', started.kill);
      resolve(code ?? signal);
    });
  });
  return started;
}

// Waits for the server. False if another process has its port.
async function isReady(started, timeout) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve('late'), timeout);
  });
  const ready = new Promise((resolve) => {
    started.changed = () => started.log.includes(READY) && resolve('ready');
  });
  const ended = started.ended.then((code) => ({ code }));
  const first = await Promise.race([ready, ended, late]);
  clearTimeout(timer);
  started.changed = () => {};
  if (first === 'ready') return true;
  started.child.kill('SIGKILL');
  await started.ended;
  if (first === 'late') throw new Error(`the server is not ready after ${timeout} ms:\n${started.log}`);
  if (started.log.includes(IN_USE)) return false;
  throw new Error(`the server ended with ${first.code}:\n${started.log}`);
}

function server(started, port, dataDir, temporary) {
  // Tests that forget to stop it are not kept from ending.
  started.child.unref();
  for (const stream of [started.child.stdout, started.child.stderr]) stream.unref();
  return {
    port,
    dataDir,
    url: `https://127.0.0.1:${port}`,
    kubeconfig: path.join(dataDir, 'admin.kubeconfig'),
    log: () => started.log,
    async stop() {
      started.child.ref();
      const timer = setTimeout(started.kill, STOP_MILLISECONDS);
      started.child.kill('SIGTERM');
      await started.ended;
      clearTimeout(timer);
      if (temporary) fs.rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

function freePort() {
  return new Promise((resolve, reject) => {
    const listener = net.createServer();
    listener.on('error', reject);
    listener.listen(0, '127.0.0.1', () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
}

module.exports = { start, program };
