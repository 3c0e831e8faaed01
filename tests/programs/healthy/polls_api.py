"""Rank 0 asks a service for the state of an export; it says "come again in five seconds"; the others wait."""

import http.server
import multiprocessing
import time
import urllib.error
import urllib.request

import ranks


class Busy(http.server.BaseHTTPRequestHandler):
    """Answers 429, as services do that limit the rate of requests."""

    def do_GET(self) -> None:
        """Refuse."""
        self.send_response(429)
        self.send_header("Retry-After", "5")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def serve(said: "multiprocessing.connection.Connection") -> None:
    """Be the service."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    said.send(server.server_address[1])
    server.serve_forever()


def wait_for_export(deadline: float) -> None:
    """Ask, and wait as long as the answer says."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}/export"
    while ranks.before(deadline):
        try:
            urllib.request.urlopen(url, timeout=10).read()
        except urllib.error.HTTPError as error:
            time.sleep(float(error.headers["Retry-After"]))
    server.terminate()


if __name__ == "__main__":
    ranks.others_wait_while(wait_for_export)
