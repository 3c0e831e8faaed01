"""Writes the addresses of the agents' pods into a file for the collector's `agents_file`, again and again.

Runs beside the collector with the standard library alone, and asks the Kubernetes API as the pod's service account.
Pods that are not ready stand in the list, too: a node that does not answer is one to be told about.
"""

import argparse
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts the account; see "Accessing the Kubernetes API from a Pod" in its documentation."""

_PAGE = 500
_MOST_PAGES = 200
_MOST_BYTES = 64 * 1024 * 1024
_ANSWER_SECONDS = 20.0
_ENDED = frozenset({"Succeeded", "Failed"})


class Api(NamedTuple):
    """Whom to ask, and as whom. The token is read anew for each question, because it is renewed."""

    url: str
    account: Path = ACCOUNT

    def get(self, path: str, **query: str | int) -> Any:
        """Return the JSON of an answer. Raises OSError, also for a status that is no success, or ValueError."""
        token = (self.account / "token").read_text(encoding="ascii").strip()
        request = urllib.request.Request(
            f"{self.url}{path}?{urllib.parse.urlencode(query)}", headers={"Authorization": f"Bearer {token}"}
        )
        trust = ssl.create_default_context(cafile=self.account / "ca.crt") if self.url.startswith("https:") else None
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS, context=trust) as answer:
            return json.loads(answer.read(_MOST_BYTES))


def pods(api: Api, selector: str) -> Iterator[dict[str, Any]]:
    """Yield all pods of our namespace that `selector` chooses, page by page. Raises OSError or ValueError."""
    namespace = (api.account / "namespace").read_text(encoding="ascii").strip()
    more: dict[str, str] = {}
    for _ in range(_MOST_PAGES):
        page = api.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector, limit=_PAGE, **more)
        yield from page["items"]
        following = page["metadata"].get("continue")
        if not following:
            return
        more = {"continue": following}
    raise ValueError(f"more than {_MOST_PAGES * _PAGE} pods")


def addresses(api: Api, selector: str, port: int) -> list[str]:
    """Return HOST:PORT of every pod that has an address and has not ended, in order. Raises OSError or ValueError."""
    found = set()
    for pod in pods(api, selector):
        status = pod["status"]
        address = status.get("podIP")
        if address and status.get("phase") not in _ENDED:
            found.add(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
    return sorted(found)


def write(target: Path, lines: list[str]) -> None:
    """Put `lines` in the place of what the file holds, at once, and only where they differ. Raises OSError."""
    text = "".join(f"{line}\n" for line in lines)
    if target.exists() and target.read_text(encoding="ascii") == text:
        return
    draft = target.with_name(f".{target.name}.new")
    draft.write_text(text, encoding="ascii")
    os.replace(draft, target)


def refresh(api: Api, selector: str, port: int, target: Path) -> bool:
    """Bring the file up to date; say on standard error why not, and keep what it holds."""
    try:
        write(target, addresses(api, selector, port))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.stderr.write(f"the list of agents stays as it is: {error!r}\n")
        return False
    return True


def main() -> None:
    """Read the command line, and refresh until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="the file to write")
    parser.add_argument("--selector", required=True, help="labels of the agents' pods")
    parser.add_argument("--port", type=int, default=8471, help="the port of the agents")
    parser.add_argument("--every", type=float, default=15.0, help="seconds between two questions")
    parser.add_argument("--once", action="store_true", help="ask once, and fail where that does")
    options = parser.parse_args()
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    api = Api(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")
    done = refresh(api, options.selector, options.port, options.to)
    if options.once:
        sys.exit(not done)
    while True:
        time.sleep(options.every)
        refresh(api, options.selector, options.port, options.to)


if __name__ == "__main__":
    main()
