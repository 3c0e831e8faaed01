"""Real servers for the tests of discovery: HTTP with or without TLS, and DNS over UDP."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import dns.exception
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import uvicorn
from fastapi import FastAPI

Headers = Mapping[str, str]
Body = bytes | Iterator[bytes]
"""Whole, or in pieces that are sent as chunks while they come."""
Answer = Callable[[str, Headers], tuple[int, Body]]
"""From a path with its query, and the headers, to a status and a body."""


class Cut(Exception):
    """Raised by a body in pieces to have the connection reset where it is."""


@contextmanager
def handling(handler: type[BaseHTTPRequestHandler], *, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve on loopback what a handler answers, each request in a thread of its own, and give the base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def http_server(answer: Answer, *, tls: ssl.SSLContext | None = None, drip_seconds: float = 0.0) -> Iterator[str]:
    """Serve GET on loopback, and give the base URL. `drip_seconds` passes between two bytes of the body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the one that knows chunks

        def do_GET(self) -> None:
            self.close_connection = True
            status, body = answer(self.path, self.headers)
            self.send_response(status)
            self.send_header("Connection", "close")
            if not isinstance(body, bytes):
                self.send_pieces(body)
                return
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                if not drip_seconds:
                    self.wfile.write(body)
                for at in range(len(body) if drip_seconds else 0):
                    self.wfile.write(body[at : at + 1])
                    time.sleep(drip_seconds)
            except OSError:
                pass  # the client has had enough

        def send_pieces(self, pieces: Iterator[bytes]) -> None:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
            except Cut:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass  # the client has had enough

        def log_message(self, format: str, *args: object) -> None:
            pass

    with handling(Handler, tls=tls) as url:
        yield url


class Zone(NamedTuple):
    """What a name server knows: records in the notation of zone files, by name and type."""

    records: Mapping[tuple[str, str], tuple[str, ...]]
    silent: bool = False


@contextmanager
def name_server(zone: Zone) -> Iterator[str]:
    """Answer DNS over UDP on loopback, and give ADDRESS:PORT."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    listening.settimeout(0.05)
    stop = threading.Event()
    thread = threading.Thread(target=_answer_names, args=(listening, zone, stop), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()
        listening.close()


def _answer_names(listening: socket.socket, zone: Zone, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            asked, sender = listening.recvfrom(4096)
        except TimeoutError:
            continue
        if not zone.silent:
            listening.sendto(_reply(asked, zone), sender)


def _reply(asked: bytes, zone: Zone) -> bytes:
    question = dns.message.from_wire(asked)
    reply = dns.message.make_response(question)
    name, kind = question.question[0].name, dns.rdatatype.to_text(question.question[0].rdtype)
    texts = zone.records.get((name.to_text(omit_final_dot=True), kind), ())
    if texts:
        reply.answer.append(dns.rrset.from_text(name, 5, "IN", kind, *texts))
    elif not any(known == name.to_text(omit_final_dot=True) for known, _ in zone.records):
        reply.set_rcode(dns.rcode.NXDOMAIN)
    return reply.to_wire(max_size=65_535)


@contextmanager
def serving(app: FastAPI, *, hurried: bool = False) -> Iterator[str]:
    """Serve an application on loopback until its lifespan has ended, and give its URL.

    `hurried`: requests that are still answered then are given up.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, ws="none"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = hurried
        thread.join()
        listening.close()
