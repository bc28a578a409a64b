"""Connects a sandbox to the proxy outside: `python -I -S relay.py SOCKET COMMAND…`.

It listens on a port of the sandbox's own loopback, forwards connections to the Unix socket SOCKET,
and runs COMMAND with the proxy in its environment. Imports no module of dirge.
"""

import contextlib
import os
import signal
import socket
import sys
import threading

_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_EXCEPT = ("NO_PROXY", "no_proxy")
_CHUNK_BYTES = 64 * 1024


def main(path: str, *command: str) -> int:
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    child = os.fork()
    if child == 0:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.close()
        os.environ.update(dict.fromkeys(_NAMES, address))
        os.environ.update(dict.fromkeys(_EXCEPT, "localhost,127.0.0.1,::1"))
        try:
            os.execvp(command[0], command)
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
            os._exit(127)
    # The command decides when it is over, even when all processes are asked to stop.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_accept, args=(listening, path), daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def _accept(listening: socket.socket, path: str) -> None:
    while True:
        here, _ = listening.accept()
        there = socket.socket(socket.AF_UNIX)
        try:
            there.connect(path)
        except OSError:
            here.close()
            continue
        for pair in ((here, there), (there, here)):
            threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK_BYTES):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
