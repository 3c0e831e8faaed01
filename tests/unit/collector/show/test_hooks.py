"""What schedulers are asked to do: exact commands for hardware, none for code, none with a name that is no name."""

import json

import pytest

from cli.tables.hooks import hook_text
from collector.show.hooks import ACTS, SYSTEMS, hooks_for
from shared.answer.action import Action
from shared.answer.diagnosis import Culprit, Diagnosis, Finding
from shared.answer.words import Act, Cause, Certainty, Kind, Verdict
from shared.rank_sets import fold

CULPRIT = Culprit(rank=3, host="node07", pid=4711, pod="team-a/llama-3")


def hung(do: Act, *nodes: str, job: str = "slurm-4242", culprit: Culprit = CULPRIT, **more: object) -> Diagnosis:
    """A diagnosis that names one rank, with this act."""
    finding = Finding(
        kind=Kind.RANK_NOT_JOINED,
        cause=Cause.GPU_FAULT,
        certainty=Certainty.PROVEN,
        culprits=(culprit,),
        victims=fold([0]),
    )
    return Diagnosis(
        id="d1",
        job=job,
        verdict=Verdict.HUNG,
        headline="Hung",
        made_at="2026-11-28T02:00:00.000Z",
        action=Action(do=do, text="do", exclude=nodes),
        findings=(finding.model_copy(update=more),),
    )


def asked(diagnosis: Diagnosis, system: str) -> list[str]:
    """The commands, as a shell would be given them."""
    return [hook_text(hook).splitlines()[1] for hook in hooks_for(diagnosis, system)]


def test_slurm_holds_the_job_until_the_node_is_excluded_and_drains_it() -> None:
    """In this order, or it starts there again."""
    assert asked(hung(Act.RESTART_WITHOUT_NODES, "node07"), "slurm") == [
        "scontrol requeuehold 4242",
        "scontrol update JobId=4242 ExcNodeList=node07",
        "scontrol release 4242",
        "scontrol update NodeName=node07 State=DRAIN 'Reason=unhang: gpu_fault, diagnosis d1'",
    ]
    assert asked(hung(Act.RESTART), "slurm") == ["scontrol requeue 4242"]


def test_kubernetes_hears_of_a_node_in_three_forms_and_starts_the_pod_elsewhere() -> None:
    """Cordoned, in its conditions and in an event."""
    cordon, condition, event, delete = asked(hung(Act.RESTART_WITHOUT_NODES, "node07"), "kubernetes")
    assert cordon == "kubectl cordon node07" and delete == "kubectl delete pod --namespace team-a llama-3"
    assert '"type": "UnhangFault", "status": "True", "reason": "UnhangGpuFault"' in condition
    assert '"involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "node07"' in event


def test_nvsentinel_is_given_a_health_event_that_is_only_stored() -> None:
    """One for each node, as its protobuf has it."""
    (hook,) = hooks_for(hung(Act.RESTART_WITHOUT_NODES, "node07"), "nvsentinel")
    (event,) = json.loads(hook.send)["events"]
    assert hook.command == () and (event["nodeName"], event["componentClass"]) == ("node07", "GPU")
    assert (event["isFatal"], event["processingStrategy"]) == (True, "STORE_ONLY")


@pytest.mark.parametrize("system", ["torchelastic", "ray"])
def test_a_rank_is_ended_on_its_node_while_it_lives(system: str) -> None:
    """A pid of one that has ended may be another's by now."""
    (hook,) = hooks_for(hung(Act.RESTART), system)
    assert (hook.command, hook.host) == (("kill", "-KILL", "4711"), "node07")
    assert hooks_for(hung(Act.RESTART, kind=Kind.RANK_EXITED), system) == ()
    assert hooks_for(hung(Act.RESTART).model_copy(update={"verdict": Verdict.DIED}), system) == ()


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("act", [act for act in Act if act not in ACTS])
def test_code_and_all_else_is_for_a_person(act: Act, system: str) -> None:
    """Whatever nodes are named."""
    assert hooks_for(hung(act, "node07"), system) == ()


@pytest.mark.parametrize("name", ["-n", "a b", "$(id)", "node07,node08\nx", ""])
def test_what_is_no_name_gets_into_no_command(name: str) -> None:
    """Neither as a job, nor as a node or a pod."""
    assert asked(hung(Act.RESTART, job=name), "slurm") == []
    assert not any("node" in one for one in asked(hung(Act.RESTART_WITHOUT_NODES, name), "slurm")[1:-1])
    culprit = CULPRIT.model_copy(update={"pod": f"team-a/{name}", "pid": None})
    assert asked(hung(Act.RESTART, culprit=culprit), "kubernetes") == []
