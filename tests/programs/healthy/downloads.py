"""Rank 0 downloads a file from a slow HTTP server, 200 kB/s; the others wait."""

import http.server
import multiprocessing
import shutil
import time
import urllib.request

import ranks

LAUNCHES = ["torchrun"]


class Slow(http.server.BaseHTTPRequestHandler):
    """Sends a file as slowly as a busy mirror."""

    def do_GET(self) -> None:
        """Send until the time is up."""
        self.send_response(200)
        self.end_headers()
        deadline = time.monotonic() + ranks.SECONDS
        while ranks.before(deadline):
            self.wfile.write(b"x" * 100_000)
            time.sleep(0.5)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def serve(said: "multiprocessing.connection.Connection") -> None:
    """Be the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    said.send(server.server_address[1])
    server.serve_forever()


def download(deadline: float) -> None:
    """Fetch the weights."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    with (
        urllib.request.urlopen(f"http://127.0.0.1:{ours.recv()}/weights", timeout=30) as reply,
        open(ranks.FOLDER / "weights.bin", "wb") as weights,
    ):
        shutil.copyfileobj(reply, weights)
    server.terminate()


if __name__ == "__main__":
    ranks.others_wait_while(download)
