"""A process that answers as NCCL's RAS thread does, well or badly: `python -m tests.system.ras.server FILE`.

FILE holds JSON: address, port, version, text and json (reports, `{pid}` in them becomes our own), mode, and library,
a file that is mapped as a rank maps libnccl.so. Prints `ready` when it listens.
"""

import json
import mmap
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

MODES = ("well", "silent", "drip", "half", "garbage", "endless", "stranger", "no_greeting", "deep", "broken_utf8")


def serve(plan: dict[str, Any]) -> None:
    """Listen as RAS does, port shared, and answer everybody in a thread of their own."""
    with open(plan["library"], "rb") as library, mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ):
        family = socket.AF_INET6 if ":" in plan["address"] else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as guard:
            guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            guard.bind((plan["address"], plan["port"]))
            guard.listen(64)
            print("ready", flush=True)
            while True:
                client, _ = guard.accept()
                threading.Thread(target=_answer, args=(client, plan), daemon=True).start()


def _answer(client: socket.socket, plan: dict[str, Any]) -> None:
    with client:
        try:
            _talk(client, plan)
        except OSError:
            return


def _talk(client: socket.socket, plan: dict[str, Any]) -> None:
    mode, has_json = plan["mode"], plan["json"] is not None
    buffered, as_json = b"", False
    while True:
        while b"\n" not in buffered:
            piece = client.recv(1024)
            if not piece:
                return
            buffered += piece
        line, _, buffered = buffered.partition(b"\n")
        command = line.decode().removesuffix("\r")
        lower = command.lower()
        if mode == "silent":
            time.sleep(600)
        if lower.startswith("client protocol "):
            client.sendall({"no_greeting": b"SSH-2.0-OpenSSH_9.2\r\n"}.get(mode, b"SERVER PROTOCOL 2\n"))
        elif lower.startswith("timeout "):
            client.sendall(b"OK\n" if lower[8:].isdigit() else b"ERROR: Invalid timeout value " + line[8:] + b"\n")
        elif lower.startswith("set format ") and has_json:
            as_json = lower[11:] == "json"
            client.sendall(b"OK\n" if lower[11:] in ("json", "text") else b"ERROR: Invalid format " + line[11:] + b"\n")
        elif lower.startswith("monitor") and tuple(map(int, plan["version"].split("."))) >= (2, 29, 2):
            client.sendall(b"OK\n")
            _tell(client, plan)
            return
        elif lower == "verbose status":
            _report(client, _with_pids(plan["json"] if as_json else plan["text"], plan), mode)
            return
        else:
            client.sendall(f"ERROR: Unknown command {command}\n".encode())


def _tell(client: socket.socket, plan: dict[str, Any]) -> None:
    """Tell what happens to processes as they are written into a file, each line of it, until the client hangs up."""
    told, client_is_there = 0, True
    while client_is_there:
        said = Path(plan["events"]).read_bytes()
        client.sendall(said[told:])
        told = len(said)
        if plan["mode"] == "endless":
            client.sendall(b"x" * 100_000)
        if plan["mode"] == "half":
            return
        client.settimeout(0.05)
        try:
            client_is_there = client.recv(1024) != b""
        except TimeoutError:
            continue


def _with_pids(report: str, plan: dict[str, Any]) -> str:
    """Put our own pid in the place of `{pid}`, and those that other ranks have written down in that of 4000 and up."""
    for file in Path(plan["pids"]).iterdir() if "pids" in plan else ():
        report = report.replace(f'"pid": {4000 + int(file.name)},', f'"pid": {file.read_text()},')
    return report.replace("{pid}", str(os.getpid()))


def _report(client: socket.socket, report: str, mode: str) -> None:
    data = report.encode()
    if mode == "half":
        client.sendall(data[: len(data) // 2])
    elif mode == "garbage":
        client.sendall(os.urandom(4096))
    elif mode == "endless":
        while True:
            client.sendall(b"  Rank 1 -- GPU 1 managed by process 7 on node n\n" * 10_000)
    elif mode == "deep":
        client.sendall(b'{"communicators":' + b"[" * 100_000)
    elif mode == "broken_utf8":
        client.sendall(data.replace(b"Job summary", b"Job \xff\xfe summary"))
    elif mode == "drip":
        for at in range(len(data)):
            client.sendall(data[at : at + 1])
            time.sleep(0.05)
    else:
        client.sendall(data)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        serve(json.load(file))
