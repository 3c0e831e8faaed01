"""Lines as container runtimes keep or show them: what a program printed, behind a time and the name of the stream.

These are the formats of /var/log/pods and /var/lib/docker/containers, and of copies of them.
"""

import json
import re

from shared.value import whole_texts

# 2026-11-23T00:00:02.123456789Z stderr F ValueError: no such shard
#   containerd and CRI-O; P where the line goes on (https://github.com/kubernetes/design-proposals-archive, node/
#   kubelet-cri-logging.md)
_CRI = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) std(?:out|err) [FP] ")
# {"log":"ValueError: no such shard\n","stream":"stderr","time":"2026-11-23T00:00:02.123456789Z"}    Docker, json-file
_DOCKER = '{"log":"'
_LONGEST = 64 * 1024


def printed(line: str) -> str:
    """Return what the program itself had printed in a line of a container's log; any other line as it is."""
    if line[10:11] == "T":
        head = _CRI.match(line)
        return line if head is None else line[head.end() :]
    if line.startswith(_DOCKER):
        try:
            text = whole_texts(json.loads(line[:_LONGEST])["log"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return line
        return text.rstrip("\r\n") if isinstance(text, str) else line
    return line
