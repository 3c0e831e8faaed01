"""Versions of NCCL that are known to hang or crash jobs, by what ranks have loaded, recorded or logged."""

from collections.abc import Iterator

from collector.checks.facts import JobFacts, RankFacts, Rule, who_with
from collector.checks.sayings import check_of
from shared.answer.checks import Check, CheckId
from shared.answer.nccl_faults import NCCL_FAULTS, NcclFault, parse_nccl_version


def nccl_known_fault(facts: JobFacts) -> Iterator[Check]:
    """Ranks that have such a version, the first that each row finds."""
    for fault in NCCL_FAULTS:
        who = [each for each in facts.processes if fault.severity is not None and _has(fault, each)]
        logged = facts.nccl_logged if fault.severity is not None and not who else ()
        versions = [version for version in logged if (parsed := parse_nccl_version(version)) and fault.has(parsed)]
        if fault.severity is not None and (who or versions):
            told = sorted({each.nccl or "" for each in who} | set(versions))
            seen = f"{who_with(who, 'have')} loaded" if who else "the logs name"
            yield check_of(
                CheckId.NCCL_KNOWN_FAULT,
                fault.severity,
                who,
                seen=f"{seen} NCCL {', '.join(told[:4])}",
                why=f"{fault.why} ({fault.report})",
                change=fault.change,
            )


def _has(fault: NcclFault, rank: RankFacts) -> bool:
    version = parse_nccl_version(rank.nccl)
    return version is not None and fault.has(version, None if rank.setup is None else rank.setup.variables)


NCCL_VERSIONS: tuple[Rule, ...] = (nccl_known_fault,)
