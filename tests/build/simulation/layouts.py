"""Topologies of jobs: which groups there are, and a healthy program for every rank."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.build.simulation.program import (
    Batch,
    Kernel,
    Operation,
    Step,
    Synchronise,
    Team,
    Work,
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    reduce_scatter,
    scatter,
)
from tests.build.simulation.schedules import fill_and_drain, one_forward_one_backward
from tests.build.simulation.style import Style


@dataclass(frozen=True)
class Layout:
    """A job without faults."""

    name: str
    world: Team
    teams: tuple[Team, ...]
    """All groups, the world first."""
    programs: dict[int, list[Step]]

    def of(self, rank: int) -> list[Team]:
        """The groups of `rank`, in the order of their making."""
        return [team for team in self.teams if rank in team.ranks]


class _Teams:
    """Makes groups and names them."""

    def __init__(self, ranks: int, style: Style) -> None:
        self.style = style
        self.world = Team("0", "default_pg", tuple(range(ranks)), "world")
        self.made = [self.world]

    def family(self, role: str, members: Sequence[Sequence[int]]) -> dict[int, Team]:
        """Make sibling groups and return each rank's own; groups of one are none."""
        own: dict[int, Team] = {}
        wide = [tuple(ranks) for ranks in members if len(ranks) > 1]
        repeated = str(1 + max((sum(r in team.ranks for team in self.made[1:]) for r in self.world.ranks), default=0))
        for number, ranks in enumerate(wide):
            name = str(len(self.made)) if self.style.names == "counted" else repeated
            description = f"{role}{number}" if self.style.described else "undefined"
            team = Team(name, description, ranks, role)
            self.made.append(team)
            own.update(dict.fromkeys(ranks, team))
        return own


_Body = Callable[[int, int], list[Step]]
"""(rank, step number) -> what the rank does in it."""


def draw_layout(random: Random, style: Style, name: str | None = None) -> Layout:
    """Draw a topology of at least three ranks, or the one called `name`."""
    chosen = name or random.choice(sorted(_LAYOUTS))
    teams, body = _LAYOUTS[chosen](random, style)
    return Layout(chosen, teams.world, tuple(teams.made), _programs(teams, body, random, style))


def _programs(teams: _Teams, body: _Body, random: Random, style: Style) -> dict[int, list[Step]]:
    programs: dict[int, list[Step]] = {}
    for rank in teams.world.ranks:
        mine: list[Step] = [barrier(teams.world, gloo=style.gloo, line=20)]
        for number in range(style.steps):
            mine += [
                Work(style.load_seconds * random.uniform(0.9, 1.1)),
                *body(rank, number),
                *_rooted(teams.world, rank, style),
            ]
            if (number + 1) % style.synchronises_each == 0:
                mine.append(Synchronise())
        programs[rank] = [*mine, barrier(teams.world, gloo=style.gloo, line=90), Synchronise()]
    return programs


def _rooted(world: Team, rank: int, style: Style) -> list[Step]:
    made: dict[str | None, list[Step]] = {
        None: [],
        "broadcast": [broadcast(world, 4, root=0)],
        "gather": [gather(world, 6, 0, rank, gloo=style.gloo)],
        "scatter": [scatter(world, 6, 0, rank, gloo=style.gloo)],
    }
    return made[style.rooted]


def _data(random: Random, style: Style) -> tuple[_Teams, _Body]:
    teams = _Teams(random.randint(3, 12), style)
    buckets = [random.randrange(100, 4000) for _ in range(random.randint(1, 3))]
    return teams, lambda rank, number: _gradients(teams.world, buckets, style)


def _gradients(team: Team | None, buckets: Sequence[int], style: Style) -> list[Step]:
    if team is None:
        return []
    single = [all_reduce(team, size) for size in buckets]
    if style.coalesced is None or style.gloo:
        return [step for call in single for step in (Kernel(0.004), call)]
    if style.coalesced == "slow" and len(single) > 1:
        return [Kernel(0.004), Batch(tuple(single))]
    shapes = tuple((size,) for size in buckets)
    return [Kernel(0.004), Operation("all_reduce_coalesced", team, shapes, shapes, line=51)]


def _tensor_data(random: Random, style: Style) -> tuple[_Teams, _Body]:
    tensor, data = random.randint(2, 4), random.randint(2, 4)
    teams = _Teams(tensor * data, style)
    tp = teams.family("tp", [range(d * tensor, (d + 1) * tensor) for d in range(data)])
    dp = teams.family("dp", [range(t, tensor * data, tensor) for t in range(tensor)])
    sizes, buckets = [random.randrange(64, 512) for _ in range(2)], [random.randrange(1000, 3000)]
    normed = random.random() < 0.5

    def body(rank: int, number: int) -> list[Step]:
        layers: list[Step] = [step for size in sizes for step in (Kernel(0.002), all_reduce(tp[rank], size, line=60))]
        norm: list[Step] = [all_reduce(teams.world, 1, line=61)] if normed else []
        return [*layers, *_gradients(dp[rank], buckets, style), *norm]

    return teams, body


def _pipeline(random: Random, style: Style) -> tuple[_Teams, _Body]:
    tensor, stages, data = random.randint(1, 2), random.randint(2, 4), random.randint(1, 3)
    width = tensor * data
    teams = _Teams(width * stages, style)
    tp = teams.family("tp", [range(i, i + tensor) for i in range(0, width * stages, tensor)])
    dp = teams.family(
        "dp", [[s * width + d * tensor + t for d in range(data)] for s in range(stages) for t in range(tensor)]
    )
    pp = teams.family("pp", [range(i, width * stages, width) for i in range(width)])
    micro, size = random.randint(2, 4), random.randrange(128, 1024)
    schedule = one_forward_one_backward if random.random() < 0.5 else fill_and_drain

    def body(rank: int, number: int) -> list[Step]:
        layer = [all_reduce(tp[rank], size, line=60)] if rank in tp else []
        p2p = schedule(pp[rank], rank, micro, size, layer, style)
        return [*p2p, *_gradients(dp.get(rank), [size * 2], style), all_reduce(teams.world, 1, line=61)]

    return teams, body


def _fsdp(random: Random, style: Style) -> tuple[_Teams, _Body]:
    teams = _Teams(random.choice([4, 6, 8]), style)
    return teams, _sharded(teams, dict.fromkeys(teams.world.ranks, teams.world), {}, random, style)


def _hybrid(random: Random, style: Style) -> tuple[_Teams, _Body]:
    shard, replicas = random.randint(2, 4), random.randint(2, 3)
    teams = _Teams(shard * replicas, style)
    inner = teams.family("shard", [range(r * shard, (r + 1) * shard) for r in range(replicas)])
    outer = teams.family("replicate", [range(s, shard * replicas, shard) for s in range(shard)])
    return teams, _sharded(teams, inner, outer, random, style)


def _sharded(teams: _Teams, shard: dict[int, Team], replicate: dict[int, Team], random: Random, style: Style) -> _Body:
    layers = [random.randrange(200, 2000) for _ in range(random.randint(2, 3))]

    def body(rank: int, number: int) -> list[Step]:
        team = shard[rank]
        steps: list[Step] = [step for size in layers for step in (_gathered(team, size, style), Kernel(0.002))]
        for size in reversed(layers):
            steps += [_gathered(team, size, style), Kernel(0.004), _scattered(team, size, style)]
            steps += [all_reduce(replicate[rank], size, line=62)] if rank in replicate else []
        return [*steps, all_reduce(teams.world, 1, line=61)]

    return body


def _gathered(team: Team, size: int, style: Style) -> Operation:
    """Gloo gathers into a list, and records it stacked."""
    if style.gloo:
        return Operation("all_gather", team, ((size,),), ((team.size, size),), line=41)
    return all_gather(team, size)


def _scattered(team: Team, size: int, style: Style) -> Operation:
    """Gloo reduces everything everywhere."""
    return all_reduce(team, size * team.size, line=42) if style.gloo else reduce_scatter(team, size)


def _expert(random: Random, style: Style) -> tuple[_Teams, _Body]:
    experts, data = random.randint(2, 4), random.randint(2, 3)
    teams = _Teams(experts * data, style)
    ep = teams.family("ep", [range(d * experts, (d + 1) * experts) for d in range(data)])
    dp = teams.family("dp", [range(e, experts * data, experts) for e in range(experts)])
    size = random.randrange(500, 2000)
    tokens = [
        {team: [[random.randrange(1, 50) for _ in range(experts)] for _ in range(experts)] for team in set(ep.values())}
        for _ in range(style.steps)
    ]

    def body(rank: int, number: int) -> list[Step]:
        team, me = ep[rank], ep[rank].group_rank(rank)
        routed = tokens[number][team]
        sends, expects = routed[me], [row[me] for row in routed]
        exchange = all_to_all if style.lists and not style.gloo else all_to_all_single
        there, back = exchange(team, sends, expects, 64), exchange(team, expects, sends, 65)
        return [Kernel(0.002), there, Kernel(0.003), back, *_gradients(dp[rank], [size], style)]

    return teams, body


_LAYOUTS: dict[str, Callable[[Random, Style], tuple[_Teams, _Body]]] = {
    "data": _data,
    "expert": _expert,
    "fsdp": _fsdp,
    "hybrid": _hybrid,
    "pipeline": _pipeline,
    "tensor x data": _tensor_data,
}
