"""Opens exec streams that do nothing, over WebSockets, and holds them until its input ends.

idle.py PKI PORT COUNT PATH: says `open` when all are.
"""

import socket
import ssl
import sys

PROGRAM = "command=sleep&command=3600&stdout=true&stderr=true"


def stream(context: ssl.SSLContext, port: int, path: str) -> ssl.SSLSocket:
    """A stream whose program runs."""
    plain = socket.create_connection(("127.0.0.1", port))
    connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
    connection.sendall(
        f"GET {path}?{PROGRAM} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n".encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        data = connection.recv(4096)
        if not data:
            sys.exit(f"no stream: {answer.decode()}")
        answer += data
    if not answer.startswith(b"HTTP/1.1 101 "):
        sys.exit(f"no stream: {answer.decode()}")
    return connection


pki, port, count, path = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{pki}/ca.crt")
context.load_cert_chain(f"{pki}/admin.crt", f"{pki}/admin.key")
context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
streams = [stream(context, int(port), path) for _ in range(int(count))]
print("open", flush=True)
sys.stdin.read()
