'use strict';

// The npm package, installed: servers are started, asked and stopped.

const assert = require('node:assert');
const fs = require('node:fs');
const { execFileSync } = require('node:child_process');
const { start } = require('kevel-apiserver');

function kubectl(server, ...args) {
  return execFileSync('kubectl', ['--kubeconfig', server.kubeconfig, ...args], { encoding: 'utf8' });
}

async function main() {
  const [one, two] = await Promise.all([start(), start({ flags: ['--v=1'] })]);
  assert.notStrictEqual(one.port, two.port);
  kubectl(one, 'create', 'configmap', 'a');
  assert.match(kubectl(one, 'get', 'configmaps', '-o', 'name'), /configmap\/a/);
  assert.doesNotMatch(kubectl(two, 'get', 'configmaps', '-o', 'name'), /configmap\/a/);
  assert.match(two.log(), /FLAG: --v/);
  await Promise.all([one.stop(), two.stop()]);
  assert(!fs.existsSync(one.dataDir));
  await assert.rejects(start({ flags: ['--foo'] }), /unknown flag: --foo/);
  // One that is not stopped does not keep the process from ending.
  await start();
}

main();
