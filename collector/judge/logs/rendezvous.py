"""Who did not come to the start, by lines of the store: counts of who came, and waits for what rank 0 must publish."""

from collections.abc import Iterator
from dataclasses import replace

from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import Membership
from collector.align.marks.table import Witness
from collector.align.thresholds import KEEP_ALIVE_ATTEMPTS
from collector.judge.logs.vote import (
    FOR_WHOM,
    Opinion,
    Said,
    line_of,
    lines_of,
    told_by,
    unnamed,
    with_field,
    writers_in_words,
    writers_of,
)
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.rank_sets import MOST_RANKS, ranks_in_words
from shared.wire.log_events import EventKind


@costs_itself(lambda *_: [])
def opinions_by_rendezvous(statements: Statements, membership: Membership) -> list[Opinion]:
    """Return what store and rendezvous lines say."""
    lines = list(statements.of_kind(EventKind.RENDEZVOUS))
    peers = with_field(lines, "peer")
    unconnected = [said for said in peers if "client socket" in said[1].text or _ABSENT & said[1].fields.keys()]
    found = [_unpublished(lines, statements, membership), _incomplete(lines, unconnected)]
    if not any(found):
        found += [_unconnected(unconnected), _never_started([*lines, *_refused(statements)])]
    if not any(found):
        found += [_key_awaited(lines), _unmet(lines)]
    return [opinion for opinion in found if opinion is not None]


def _unpublished(lines: list[Said], statements: Statements, membership: Membership) -> Opinion | None:
    """Ranks that wait for the unique id of a communicator wait for the one rank that makes it.

    Of two ranks that send to each other it is the lower one. Those may wait in a circle, and no line tells.
    """
    waits = with_field(with_field(lines, "waiter"), "peer")
    places = {int(event.fields["waiter"]): rank for rank, event in waits}
    told = (event.fields.get("pair", event.fields["peer"]) for _, event in waits)
    peers = {int(peer) for peer in told if peer.isdecimal() and len(peer) < 8}
    if not waits or len(peers) != 1:
        return None
    speakers = {place: rank for place, rank in places.items() if rank is not None}
    named = membership.translate(peers, speakers) or ()
    victims = membership.translate(places, speakers) or tuple(sorted(speakers.values()))
    culprits = tuple(rank for rank in named if rank not in statements.waited and rank not in victims)
    who = ranks_in_words(culprits) if culprits else f"group rank {min(peers)}"
    return Opinion(
        witness=Witness.STORE,
        kind=Kind.RANK_NOT_JOINED,
        culprits=culprits,
        victims=victims,
        said=f"{who} never published the id of a communicator, for which {ranks_in_words(victims)} waited",
        evidence=lines_of(waits, culprits),
        remarks=("the line looks like a network error, but also appears when the rank never arrived or has exited",),
    )


def _incomplete(lines: list[Said], unconnected: list[Said]) -> Opinion | None:
    """A start that timed out with fewer, or with more, than were expected.

    Where all who came are those who say so, the others are the ones who did not come. Nor has it timed out yet where
    one of them says again that it waits, and nobody has come since.
    """
    told = [(rank, event) for rank, event in lines if {"joined", "expected"} <= event.fields.keys()]
    counts = [(rank, event) for rank, event in told if "imed out" in event.text]
    over = bool(counts)
    counts = counts or _still_waiting(told)
    if not counts:
        return None
    rank, event = counts[-1]
    joined, expected = int(event.fields["joined"]), int(event.fields["expected"])
    if joined == expected:
        return None
    came = {int(event.fields["waiter"]) for _, event in counts if "waiter" in event.fields}
    known = 0 < len(came) == joined < expected <= MOST_RANKS and max(came) < expected
    missing = tuple(sorted(set(range(expected)) - came)) if known else ()
    too_many = ("more arrived than belong to it: a store left from an earlier start, or a job started twice",)
    who = f": {ranks_in_words(missing)} did not" if missing else ""
    when = "before it timed out" if over else "so far"
    return Opinion(
        witness=Witness.STORE,
        kind=Kind.STARTUP_INCOMPLETE,
        culprits=missing,
        victims=tuple(sorted({*writers_of(counts), *(came if known else ())} - {*missing})),
        said=f"the job did not start: {joined} of {expected} arrived at the rendezvous {when}{who}"
        + "".join(f"; {_unconnected_in_words(unconnected)}" for _ in unconnected[:1]),
        evidence=(line_of(event, rank, missing), *(line_of(e, r) for r, e in unconnected[:2])),
        cause=Cause.RENDEZVOUS,
        remarks=too_many if joined > expected else () if missing else (_UNTOLD,),
    )


def _still_waiting(told: list[Said]) -> list[Said]:
    """The last lines of a barrier at which somebody waits for the same count as before; empty where nobody does."""
    if not told:
        return []
    last = told[-1][1].fields
    alike = ("key", "joined", "expected")
    if int(last["joined"]) > int(last["expected"]):
        return told[-1:]
    same = [said for said in told if [said[1].fields.get(x) for x in alike] == [last.get(x) for x in alike]]
    waiters = [event.fields.get("waiter") for _, event in same]
    return same if None not in waiters and len(set(waiters)) < len(waiters) else []


def _key_awaited(lines: list[Said]) -> Opinion | None:
    """Who waited for a key that nobody has written: the line does not say who should have."""
    told = [said for said in with_field(lines, "waited_ms") if "wait timeout" in said[1].text]
    if not told:
        return None
    waited = int(told[0][1].fields["waited_ms"]) / 1000
    said = f"{writers_in_words(told)} waited {waited:.0f} s for a key in the store that another rank writes, in vain"
    return unnamed(Witness.STORE, Kind.RANK_NOT_JOINED, told, said, FOR_WHOM, cause=Cause.RENDEZVOUS)


def _unmet(lines: list[Said]) -> Opinion | None:
    """torchelastic's agents that did not meet, or that cannot reach any more where they met."""
    told = with_field(lines, "unmet")
    agents = [event.fields["agent"] for _, event in told if "agent" in event.fields]
    lasting = sorted({agent for agent in agents if agents.count(agent) >= KEEP_ALIVE_ATTEMPTS})
    met = [(rank, event) for rank, event in told if "agent" not in event.fields and "quorum" not in event.fields]
    short = [(rank, event) for rank, event in told if "quorum" in event.fields]
    met = met or (short if len(short) >= KEEP_ALIVE_ATTEMPTS else [])
    if not met and not lasting:
        return None
    said = (
        f"the agent on {', '.join(lasting[:4])} lost the rendezvous: whoever hosted it has ended or cannot be reached"
    )
    if met:
        why = {
            "Timeout": "the rendezvous failed, too few nodes came in time",
            "Closed": "the rendezvous failed, it was closed already when a node came",
            "No quorum": "too few replica groups came for torchft's quorum",
            "Wait_for_all_tasks_to_register": "not all tasks registered with JAX's coordinator in time",
            "didn't finish loading": "other ranks had not loaded the model in time",
        }
        fields = met[-1][1].fields
        of = f", {fields.get('replicas', 'few')} of {fields['quorum']}" if "quorum" in fields else ""
        said = f"the job did not start: {why.get(fields['unmet'], 'the rendezvous failed')}{of}"
    kind = Kind.STARTUP_INCOMPLETE if met else Kind.RANK_UNREACHABLE
    return unnamed(Witness.STORE, kind, met or told, said, _UNTOLD, victims=(), cause=Cause.RENDEZVOUS)


_UNTOLD = "these lines do not show which ranks did not arrive"


def _unconnected(unconnected: list[Said]) -> Opinion | None:
    """Ranks that could not reach the store, or a launcher a node, where no line names who did."""
    if not unconnected:
        return None
    said = f"the job did not start: {_unconnected_in_words(unconnected)}"
    remark = "nothing listened there, or the way to it is closed: the lines look the same"
    tried = all("caller" in event.fields for _, event in unconnected)  # launchers try again, and may have got there
    opinion = unnamed(Witness.STORE, Kind.STARTUP_INCOMPLETE, unconnected, said, remark, cause=Cause.RENDEZVOUS)
    return replace(opinion, vague=tried)


def _unconnected_in_words(unconnected: list[Said]) -> str:
    ranks = writers_of(unconnected)
    peers = sorted({event.fields["peer"].replace(", ", ":") for _, event in unconnected})
    who = ranks_in_words(ranks) if ranks else ", ".join(told_by(unconnected, "caller")[:4]) or "a rank"
    return f"{who} could not connect to {', '.join(peers[:4])}"


def _refused(statements: Statements) -> Iterator[Said]:
    """NCCL keeps what processes of a node share in /dev/shm, and little else: that is what has no space left."""
    full = statements.of_kind(EventKind.EXCEPTION)
    return ((rank, event) for rank, event in full if "NCCL WARN" in event.text and _SPACE in event.text)


def _never_started(lines: list[Said]) -> Opinion | None:
    """A port that somebody else holds, or what a library needs on the node and does not get."""
    told = [said for said in lines if said[1].kind is EventKind.EXCEPTION or _REFUSALS & said[1].fields.keys()]
    if not told:
        return None
    event = told[0][1]
    ranks, hosts = writers_of(told), told_by(told, "writer_host")
    who = ranks_in_words(ranks) if ranks else "a process"
    where = f" on {', '.join(hosts[:4])}" if hosts else ""
    port = f"port {event.fields['port']}" if "port" in event.fields else "the port that it needs"
    held = "could not be opened" if event.fields.get("taken") == "fail" else "was already in use"
    why, cause, advice = _UNSTARTED.get(
        event.fields.get("unstarted", event.fields.get("type", "")), (f"{port} {held}", Cause.RENDEZVOUS, _CHANGE_PORT)
    )
    said = f"the job did not start: {why} where {who} ran{where}"
    return unnamed(Witness.STORE, Kind.STARTUP_INCOMPLETE, told, said, advice, victims=(), cause=cause)


_ABSENT = frozenset({"unresolved", "caller"})
_REFUSALS = frozenset({"taken", "unstarted"})
_SPACE = "No space left on device"
_CHANGE_PORT = "another job or one that has not ended holds the port: end it, or change --master-port or MASTER_PORT"
_CHANGE_INTERFACE = (
    "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME must name an interface that the node has and that reaches the others: "
    "`ip -br addr` lists them"
)
_MORE_SHARED_MEMORY = (
    "/dev/shm is full, small or not shared, as `df -h /dev/shm` tells: docker run has --shm-size and --ipc=host, a "
    "pod an emptyDir of medium Memory"
)
_OWN_GPU = "each process needs a GPU of its own: torch.cuda.set_device by its local rank, or CUDA_VISIBLE_DEVICES"
_COUNT_RANKS = "compare RANK, LOCAL_RANK, WORLD_SIZE and what srun or the launcher was given on every node"
_MORE_LOCKED_MEMORY = (
    "memory that an adapter uses must be locked: `ulimit -l` must be unlimited within the job itself, as docker run "
    "--ulimit memlock=-1 and limits.conf allow"
)
_REGISTER_MEMORY = (
    "/dev/infiniband must be there, its driver loaded and memory lockable: in a container, --device and --ulimit "
    "memlock=-1, or --privileged to try"
)
_CHOOSE_CORES = "CCL_WORKER_AFFINITY must name cores that the process may use: `taskset -cp PID` tells which"
_CHANGE_PROVIDER = "FI_PROVIDER and CCL_ATL_TRANSPORT must name what the node has: `fi_info -l` lists it"
_FREE_DEVICE = (
    "end what is left of an earlier job on these devices: `fuser -v /dev/davinci* /dev/accel*` tells who holds them"
)
_START_COORDINATOR = (
    "process 0 must be up first and its port be open: jax.distributed.initialize waits for it and gives up"
)
_NO_MEMORY = ("NCCL could not share memory between processes", Cause.FILESYSTEM, _MORE_SHARED_MEMORY)
_UNSTARTED = {
    "no socket interface": ("NCCL found no network interface to start with", Cause.NETWORK, _CHANGE_INTERFACE),
    "Socket creation failed": ("NCCL could not open a socket", Cause.NETWORK, _CHANGE_INTERFACE),
    "connectFullMesh failed": ("Gloo could not connect every rank with every other", Cause.NETWORK, _CHANGE_INTERFACE),
    "ibv_reg_mr": ("NCCL could not register memory with InfiniBand", Cause.NETWORK, _MORE_LOCKED_MEMORY),
    "Duplicate GPU": ("NCCL found several ranks on one GPU", Cause.USER_CODE, _OWN_GPU),
    "already checked in": ("two processes say to be the same rank of NCCL's", Cause.USER_CODE, _COUNT_RANKS),
    "mismatch in rank count": ("processes disagree how many ranks there are", Cause.USER_CODE, _COUNT_RANKS),
    "host not found": ("the name of its master was not known", Cause.RENDEZVOUS, "the master must be up first"),
    "nvshmem": ("NVSHMEM could not set up its transport", Cause.NETWORK, _REGISTER_MEMORY),
    "can't find suitable provider": ("oneCCL found no transport", Cause.NETWORK, _CHANGE_PROVIDER),
    "init transport failed": ("oneCCL could not start its transport", Cause.NETWORK, _CHANGE_PROVIDER),
    "failed to start worker": ("oneCCL could not start its threads", Cause.USER_CODE, _CHOOSE_CORES),
    "cclCommInitRootInfo": ("HCCL could not make its communicator", Cause.COMMUNICATION, _COUNT_RANKS),
    "HCCP process": ("HCCL's own process did not start", Cause.UNKNOWN, _FREE_DEVICE),
    "RegisterTask": ("JAX's coordinator did not answer", Cause.RENDEZVOUS, _START_COORDINATOR),
    "TPU initialization failed": ("the TPU could not be opened", Cause.UNKNOWN, _FREE_DEVICE),
    **dict.fromkeys((_SPACE, "shared memory segment"), _NO_MEMORY),
}
"""By what a line names: what it says, why, and what to do."""
