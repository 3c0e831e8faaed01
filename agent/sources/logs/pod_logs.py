"""The log of the container that a rank runs in, where kubelet keeps it on the node.

A container's output goes through a pipe to its shim and on to containerd, which writes the logs of all pods: which of
them is whose, kubelet says. /var/log/containers has a link for each container, with the container's id at its end, that
leads to /var/log/pods/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log
(https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-location-node).

Both are looked up below the node's root. The log is root's, and no user of the container may read it; it holds what
they have printed themselves. So it counts only where the control group's name is one of kubelet's from its beginning,
which no process within a pod or a session can bring about.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

from agent.errors import Gone
from agent.find.pod_of_process import NODE, ContainerPlace, kubelets_place_of
from agent.proc.file_access import Reader
from agent.proc.job_files import open_named
from agent.proc.procfs import ProcFs, reading
from shared.errors import NotPermitted

_LINKS = "/var/log/containers"
_MOST_LINKS = 10_000
_ROOT = (Reader(0, frozenset(), overrides=True),)


def pod_logs(procfs: ProcFs, pid: int) -> Iterator[tuple[str, Callable[[], AbstractContextManager[int]]]]:
    """Iterate over the one log of the container of process `pid`, with how to open it; none outside Kubernetes."""
    place = kubelets_place_of(procfs, pid)
    path = None if place is None else _path_of(procfs, place)
    if path is not None:
        yield path, partial(open_named, procfs, NODE, path, _ROOT)


def _path_of(procfs: ProcFs, place: ContainerPlace) -> str | None:
    """Return where kubelet's link for a container leads, if that is a log of the container's own pod."""
    folder = procfs.path(NODE, "root") + _LINKS
    log = re.compile(rf"/var/log/pods/[^/\s]+_{re.escape(place.pod_uid)}/[^/\s]+/\d+\.log")
    try:
        with reading(NODE), os.scandir(folder) as entries:
            for _, entry in zip(range(_MOST_LINKS), entries, strict=False):
                if entry.name.endswith(f"-{place.container_id}.log"):
                    target = os.readlink(entry.path)
                    return target if log.fullmatch(target) else None
    except (Gone, NotPermitted):
        return None
    return None
