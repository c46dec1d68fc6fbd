"""A Kubernetes API server for tests.

    with kevel_apiserver.start() as server:
        ...  # server.kubeconfig is the path of an administrator's kubeconfig
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time

__all__ = ["Server", "StartError", "program", "start"]

# Message that the server logs when it is ready, in text and in JSON.
_READY = '"Ready"'
_IN_USE = "Address already in use"
# Ports that are tried before it is an error that none is free: another process may take one between being found free
# and being bound.
_ATTEMPTS = 20
# Seconds after which a server that does not stop is killed: longer than its requests may take.
_STOP_SECONDS = 70


class StartError(Exception):
    """Error of a server that ended, or did not become ready in time. Its text has the log."""


class Server:
    """A running server; a context manager that stops it."""

    def __init__(self, process, port, data_dir, temporary):
        self._process = process
        self._temporary = temporary
        #: Port on 127.0.0.1.
        self.port = port
        #: Folder of keys, certificates, kubeconfig, log, and of the objects if they are kept.
        self.data_dir = data_dir

    @property
    def url(self):
        """Address of the server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self):
        """Path of the administrator's kubeconfig."""
        return os.path.join(self.data_dir, "admin.kubeconfig")

    @property
    def log(self):
        """Text that the server has logged so far."""
        with open(_log_path(self.data_dir), encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop(self):
        """Stops the server and deletes its folder if start() made it. A second call does nothing."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def program():
    """Path of the kube-apiserver in this package."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "kube-apiserver")


def start(*flags, data_dir=None, timeout=60):
    """Starts a server and waits until it is ready.

    flags: flags of kube-apiserver beside those of address, port and storage.
    data_dir: folder in which objects are kept; without it they are in memory, and gone with the server.
    timeout: seconds in which the server has to be ready.
    """
    temporary = data_dir is None
    data_dir = tempfile.mkdtemp(prefix="kevel-") if temporary else os.path.abspath(data_dir)
    os.makedirs(data_dir, exist_ok=True)
    storage = "memory" if temporary else "embedded"
    try:
        for _ in range(_ATTEMPTS):
            port = _free_port()
            command = [
                program(),
                f"--data-dir={data_dir}",
                f"--storage={storage}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                *flags,
            ]
            server = Server(_spawn(command, data_dir), port, data_dir, temporary)
            if _is_ready(server, timeout):
                return server
        raise StartError("no port is free")
    except BaseException:
        if temporary:
            shutil.rmtree(data_dir, ignore_errors=True)
        raise


def _spawn(command, data_dir):
    # Like everything in that folder, the log is its owner's alone.
    with open(_log_path(data_dir), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _is_ready(server, timeout):
    """Waits for the server. False if another process has its port."""
    deadline = time.monotonic() + timeout
    try:
        while True:
            # First the process, then the log: what it logged before it ended is there.
            ended = server._process.poll() is not None
            log = server.log
            if _READY in log and not ended:
                return True
            if ended and _IN_USE in log:
                return False
            if ended:
                raise StartError(f"the server ended with {server._process.returncode}:\n{log}")
            if time.monotonic() > deadline:
                raise StartError(f"the server is not ready after {timeout} s:\n{log}")
            time.sleep(0.005)
    except BaseException:
        server._process.kill()
        server._process.wait()
        raise


def _log_path(data_dir):
    return os.path.join(data_dir, "kube-apiserver.log")


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
