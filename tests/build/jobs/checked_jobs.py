"""Jobs as agents would show them: healthy ones, to be spoilt in one place."""

from collections.abc import Mapping
from typing import Any

from shared.missing import Missing, Reason
from shared.wire.setup import Setup, Versions
from shared.wire.snapshot import Fds, Identity, NodeSnapshot, RankSnapshot, Socket

STARTED, LOOKED = 1_700_000_000.0, 1_700_000_600.0
PER_NODE = 2
NOTHING = Missing(source="test", reason=Reason.NOT_ENABLED)


def variables(rank: int, world: int = 4, **more: str) -> dict[str, str]:
    """Return what torchrun and a careful user set for one rank."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % PER_NODE),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "node1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "night",
        "OMP_NUM_THREADS": "1",
        "NCCL_SOCKET_IFNAME": "eth,ib",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1",
        "NCCL_DEBUG": "WARN",
        "NCCL_ALGO": "Ring",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        **more,
    }


def rank(number: int, *, settings: Mapping[str, str] | None = None, drop: str = "", **more: Any) -> RankSnapshot:
    """Return one rank of a healthy job on GPU nodes of two ranks each; `settings` and `more` spoil it."""
    said = {**variables(number), **(settings or {})}
    said = {name: value for name, value in said.items() if name not in drop.split()}
    host = more.pop("host", f"node{number // PER_NODE + 1}")
    facts = {
        "launcher": more.pop("command", None)
        or "python -m torch.distributed.run --nnodes 2 --rdzv-endpoint node1:29400 train.py",
        "versions": Versions(torch="2.12.1+cu130", cuda="12.8", nccl="2.27.5", python="3.12", driver="570.86.10"),
        "nccl_loaded": True,
        "interfaces": ("eth0", "ib0", "lo"),
        "hcas": ("mlx5_0", "mlx5_1"),
        "gpus": PER_NODE,
        "cpus": 16,
        "hosts": {"node1": ("10.0.0.1",), host: (f"10.0.0.{host[-1]}",)},
    }
    identity = {
        "job": "night",
        "rank": number,
        "local_rank": int(said.get("LOCAL_RANK", number % PER_NODE)),
        "world_size": int(said.get("WORLD_SIZE", 1)),
        "launcher": "torchrun",
        "host": host,
        "pid": 1000 + number,
        "started_at": STARTED,
    }
    identity |= {name: more.pop(name) for name in tuple(more) if name in Identity.model_fields}
    recorder = more.pop("recorder", NOTHING)
    sockets = tuple(Socket(fd=3, kind="tcp", state="ESTABLISHED", remote=remote) for remote in more.pop("talks_to", ()))
    return RankSnapshot(
        identity=Identity.model_validate(identity),
        looked_at_ns=int(LOOKED * 1e9),
        process=NOTHING,
        stacks=NOTHING,
        fds=Fds(total=9, sockets=sockets),
        logs=NOTHING,
        recorder=recorder,
        setup=Setup.model_validate({**facts, "variables": said, **more}),
    )


def job(*changed: RankSnapshot, of: int = 4) -> list[NodeSnapshot]:
    """Return the snapshots of a job of `of` ranks in which `changed` stand for the ranks of their numbers."""
    instead = {each.identity.rank for each in changed}
    return nodes(*(rank(number) for number in range(of) if number not in instead), *changed)


def nodes(*ranks: RankSnapshot) -> list[NodeSnapshot]:
    """Return one snapshot for each host of the ranks."""
    hosts = sorted({each.identity.host or "" for each in ranks})
    taken = int(LOOKED * 1e9)
    return [
        NodeSnapshot(host=host, taken_at_ns=taken, ranks=tuple(r for r in ranks if r.identity.host == host))
        for host in hosts
    ]
