"""The faulty rank awaits a sample of a rollout in an event loop, and no task is left that would put one."""

import asyncio

import rig

TRUTH = {"or_silent": True, "kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "next_sample"}


async def next_sample(samples: "asyncio.Queue[int]") -> int:
    """Await a sample."""
    return await samples.get()


async def collect() -> None:
    """Have one sampler sample, and wait for more than it makes."""
    samples: asyncio.Queue[int] = asyncio.Queue()
    sampler = asyncio.create_task(samples.put(1), name="sampler")
    await sampler
    await asyncio.gather(next_sample(samples), next_sample(samples))


if __name__ == "__main__":
    rig.train(rig.start(), lambda: asyncio.run(collect()))
