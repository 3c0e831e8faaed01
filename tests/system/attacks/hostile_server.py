"""A rank whose worker server answers with as much as it likes: `python hostile_server.py FOLDER SHAPE MEGABYTES`.

Imports nothing of ours: it runs as a rank does.
"""

import os
import socket
import sys

ROW = b'{"op_id":%d,"profiling_name":"nccl:all_reduce","state":"completed","process_group":["0","default_pg"],'
ROW += b'"collective_seq_id":%d,"time_created_ns":1700000000000000000,"input_sizes":[[%d]],"output_sizes":[[4]],'
ROW += b'"input_dtypes":["Float"],"output_dtypes":["Float"],"timeout_ms":600000,"is_p2p":false,"retired":true},'
SHAPES = {
    "dicts": lambda at: b"{},",
    "lists": lambda at: b"[],",
    "keys": lambda at: b'{"a":{}},',
    "frames": lambda at: b'{"frames":[{},{}]},',
    "signatures": lambda at: b'{"profiling_name":"%x"},' % at,
    "groups": lambda at: b'{"pg_id":"%x"},' % at,
    "sizes": lambda at: b'{"input_sizes":[[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1]]},',
    "wide": lambda at: b'{"a":"\xf0\x9f\x98\x80%s"},' % (b"a" * 4000),
    "honest": lambda at: ROW % (at, at, at),
}


def body_of(shape: str, most_bytes: int) -> bytes:
    """Return a dump of so many bytes whose entries are all of one shape."""
    row = SHAPES[shape]
    same = row(0) == row(1)
    rows = [row(0) * (most_bytes // len(row(0)))] if same else []
    size, at = sum(map(len, rows)), 0
    while size < most_bytes:
        rows.append(row(at))
        size, at = size + len(rows[-1]), at + 1
    return b'{"version":"2.10","entries":[' + b"".join(rows).rstrip(b",") + b"]}"


def serve(folder: str, body: bytes) -> None:
    """Listen where a probe would, and answer whoever asks."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{folder}/{os.getpid()}.sock")
    server.listen()
    print("ready", flush=True)
    while True:
        channel, _ = server.accept()
        try:
            asked = channel.recv(65536)
            answer = b'["dump_nccl_trace_json"]' if asked.startswith(b"GET /handler/ ") else body
            channel.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
        except OSError:
            pass
        channel.close()


if __name__ == "__main__":
    serve(sys.argv[1], body_of(sys.argv[2], int(float(sys.argv[3]) * 1_000_000)))
