"""In which pod and container of Kubernetes a process runs, as the name of its control group tells.

The pod's namespace stands in the name of the folder in which kubelet keeps the pod's logs, NAMESPACE_POD_UID
(https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-location-node). It is looked up below the root
of process 1: an agent in a pod sees the node's processes, and not its folders.
"""

import os
import re
from itertools import islice
from typing import NamedTuple

from agent.errors import Gone
from agent.proc.procfs import ProcFs, reading
from shared.errors import NotPermitted
from shared.wire.job_names import NAMESPACE

# 0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3b1e2c4d_5f60_7182_93a4_b5c6d7e8f901.slice/
#    cri-containerd-<64 digits>.scope                                        (systemd's names, in one line)
# 9:memory:/kubepods/besteffort/pod3b1e2c4d-5f60-7182-93a4-b5c6d7e8f901/<64 digits>          (cgroupfs' names)
# 0::/../../kubepods-podb5c6d7e8f90112345678123456781234.slice/crio-<64 digits>.scope     (a pod of the kubelet's own)
_POD = re.compile(
    r"[/-]pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?"
    r"/(?:[a-z]{1,20}-){0,3}([0-9a-f]{64})(?:\.scope)?(?=/|$)"
)
# 0::/system.slice/docker-<64 digits>.scope/kubelet.slice/kubelet-kubepods.slice/…                      (kind's nodes)
_KUBELET = re.compile(
    r"\d+:[^:]*:/(?:\.\./)*(?:system\.slice/docker-[0-9a-f]{64}\.scope/|docker/[0-9a-f]{64}/)?(?:kubelet[^/]*/)?"
    r"(?:kubelet-)?kubepods[^/]*/"
)
_LONGEST_LINE = 4096

NODE = 1
"""The process whose root is the node's."""

_LOGS = "/var/log/pods"
_MOST_PODS = 10_000
_NAMESPACE = re.compile(NAMESPACE)


class ContainerPlace(NamedTuple):
    """The pod's uid and the container's id, as Kubernetes' API writes them, and what the process is called within."""

    pod_uid: str
    container_id: str
    container_pid: int | None = None


def place_of(procfs: ProcFs, pid: int) -> ContainerPlace | None:
    """Return where process `pid` runs; None where it is in no pod or may not be read."""
    return _place_by(_line_of(procfs, pid), procfs, pid)


def kubelets_place_of(procfs: ProcFs, pid: int) -> ContainerPlace | None:
    """The same, if the control group that names the pod is kubelet's from its beginning: a user may name theirs so."""
    line = _line_of(procfs, pid)
    return _place_by(line, procfs, pid) if line is not None and _KUBELET.match(line) is not None else None


def namespace_of(procfs: ProcFs, pid: int) -> str | None:
    """Return the namespace of the pod that process `pid` runs in; None where it is in none, or kubelet does not say."""
    place = kubelets_place_of(procfs, pid)
    if place is None:
        return None
    try:
        with reading(NODE), os.scandir(procfs.path(NODE, "root") + _LOGS) as pods:
            named = (pod.name.split("_") for pod in islice(pods, _MOST_PODS))
            namespaces = (words[0] for words in named if len(words) == 3 and words[2] == place.pod_uid)
            return next(filter(_NAMESPACE.fullmatch, namespaces), None)
    except (Gone, NotPermitted):
        return None


def _place_by(line: str | None, procfs: ProcFs, pid: int) -> ContainerPlace | None:
    found = None if line is None else _POD.search(line)
    return None if found is None else ContainerPlace(found[1].replace("_", "-"), found[2], _innermost_pid(procfs, pid))


def _line_of(procfs: ProcFs, pid: int) -> str | None:
    """Return the line of /proc/PID/cgroup that names a pod."""
    lines = (line[:_LONGEST_LINE] for line in procfs.known_text(pid, "cgroup").splitlines())
    return next((line for line in lines if _POD.search(line) is not None), None)


def _innermost_pid(procfs: ProcFs, pid: int) -> int | None:
    # NSpid:  4711    17             (the pid here, then within each namespace further in)
    words = procfs.known_fields(pid, "status").get("NSpid", "").split()
    return int(words[-1]) if words and words[-1].isdecimal() else None
