// A server with a terminal, and requests of its administrator.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import https from "node:https";
import net from "node:net";
import os from "node:os";
import path from "node:path";

/** The longest that anything is waited for, in milliseconds: machines of tests are busy. */
export const PATIENCE = 60_000;

export async function until(condition, what) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const freePort = () => new Promise((resolve) => {
  const listener = net.createServer().listen(0, "127.0.0.1", () => {
    const { port } = listener.address();
    listener.close(() => resolve(port));
  });
});

/** Starts the program on a terminal of its own. */
export async function start(program) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "kevel-ui-"));
  const data = path.join(folder, "data"), port = await freePort();
  const command = `exec '${program}' --storage=memory --data-dir='${data}' --secure-port=${port} --bind-address=127.0.0.1`;
  const child = spawn("script", ["-q", "-e", "-f", "-c", command, "/dev/null"], { stdio: ["pipe", "pipe", "inherit"] });
  let printed = "";
  child.stdout.on("data", (bytes) => { printed += bytes; });
  const codes = () => [...printed.matchAll(/code ([A-Z2-9-]{14})/g)].map(([, code]) => code);
  await until(() => codes().length > 0, `a code on the terminal: ${printed}`);

  const file = (name) => readFileSync(path.join(data, "pki", name));
  const agent = new https.Agent({ keepAlive: true, maxSockets: 32, ca: file("ca.crt"), cert: file("admin.crt"), key: file("admin.key") });
  const send = (method, target, body, type = "application/json") => new Promise((resolve, reject) => {
    const text = body === undefined ? "" : JSON.stringify(body);
    const headers = { "Content-Type": type, "Content-Length": Buffer.byteLength(text) };
    const request = https.request({ host: "127.0.0.1", port, agent, method, path: target, headers }, (response) => {
      let said = "";
      response.on("data", (bytes) => { said += bytes; });
      response.on("end", () => {
        const answer = said ? JSON.parse(said) : null;
        if (response.statusCode < 300) resolve(answer); else reject(new Error(`${method} ${target}: ${said}`));
      });
    });
    request.on("error", reject);
    request.end(text);
  });
  const stop = async () => {
    agent.destroy();
    child.kill("SIGTERM");
    await new Promise((resolve) => child.once("exit", resolve));
    rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
  };
  return { url: `https://127.0.0.1:${port}/ui/`, codes, send, stop };
}
