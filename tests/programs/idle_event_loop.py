"""Nothing is wrong: rank 0 serves from an event loop in which nothing happens, the others wait for its broadcast."""

import asyncio

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell"]}


async def serve() -> None:
    """Listen for requests that do not come."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve: rank 0 asks the others for work only when it has some."""
    place = rig.start()
    tokens = torch.ones(16)
    for _ in range(rig.FAULTY_STEP):
        dist.broadcast(tokens, src=0)
    rig.say_ready(f"rank {place.rank}")
    if place.rank == 0:
        asyncio.run(serve())
    dist.broadcast(tokens, src=0)


if __name__ == "__main__":
    main()
