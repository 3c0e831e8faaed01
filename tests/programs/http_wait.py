"""The faulty rank asks a web service that accepts the connection and never answers, without a timeout."""

import socket
import urllib.request

import rig

TRUTH = {
    "or_silent": True,
    "kinds": ["rank_not_joined"],
    "causes": ["network", "user_code"],
    "where": "fetch_tokenizer",
}


def fetch_tokenizer() -> bytes:
    """Ask a server of our own; the kernel accepts for it, and it never reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/tokenizer.json") as answer:
            content: bytes = answer.read()
    return content


if __name__ == "__main__":
    rig.train(rig.start(), fetch_tokenizer)
