export interface StartOptions {
  /** Flags of kube-apiserver beside those of address, port and storage. */
  flags?: string[];
  /** Folder in which objects are kept; without it they are in memory, and gone with the server. */
  dataDir?: string;
  /** Milliseconds in which the server has to be ready: 60,000 by default. */
  timeout?: number;
}

export interface Server {
  /** Path of the administrator's kubeconfig. */
  kubeconfig: string;
  /** Address of the server. */
  url: string;
  /** Port on 127.0.0.1. */
  port: number;
  /** Folder of keys, certificates, kubeconfig, and of the objects if they are kept. */
  dataDir: string;
  /** Text that the server has logged so far. */
  log(): string;
  /** Stops the server and deletes its folder if start() made it. */
  stop(): Promise<void>;
}

/** Starts a server and waits until it is ready. */
export function start(options?: StartOptions): Promise<Server>;

/** Path of the kube-apiserver in this package. */
export const program: string;
