"""Asks about a job as if its node were one of many: a survey, then whole looks at the ranks it is about."""

import json
import sys
from collections.abc import Sequence
from functools import partial

import httpx

from cli.sources.one_box import ask
from collector.gather.sweep import Sweep, sweep
from collector.hostlists import AgentAddress
from collector.question import Question
from shared.missing import Missing
from shared.wire.snapshot import Fds


async def surveyed(job: str, agents: Sequence[AgentAddress], client: httpx.AsyncClient) -> Sweep:
    """Ask as if this node were one of many."""
    return await sweep(Question(job=job, survey_above=0), agents, client)


def main() -> None:
    """Print the answer about the job that stands on the command line, and of which ranks files were looked at."""
    swept = ask(partial(surveyed, sys.argv[1]))
    ranks = [(look.whole, rank) for look in swept.snapshots for rank in look.ranks]
    told = {
        "answer": swept.diagnosis.model_dump(mode="json"),
        "in_whole_looks": [rank.identity.rank for whole, rank in ranks if whole and not isinstance(rank.fds, Missing)],
        "looked_at": [rank.identity.rank for _, rank in ranks if isinstance(rank.fds, Fds)],
    }
    print(json.dumps(told))
    sys.exit(0)
