#!/usr/bin/env node
'use strict';

// The command kevel-apiserver: kube-apiserver with the same arguments, signals and exit code.

const { spawn } = require('node:child_process');
const os = require('node:os');
const { program } = require('..');

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
child.on('error', (error) => {
  console.error(String(error));
  process.exitCode = 1;
});
child.on('exit', (code, signal) => {
  process.exit(code ?? 128 + os.constants.signals[signal]);
});
