"""What people and programs put around evidence on its way: before each line, and around several files in one."""

from collections.abc import Callable, Mapping
from functools import partial

Paste = Callable[[Mapping[str, str]], str]

HEADS = {
    "kubectl logs --timestamps": "2026-11-23T00:00:02.123456789Z {}",
    "docker logs -t": "2026-11-23T00:00:02.123456789+00:00 {}",
    "journalctl": "Nov 23 00:00:02 gpu17 torchrun[4242]: {}",
    "journalctl -o short-iso": "2026-11-23T00:00:02+0000 gpu17 torchrun[4242]: {}",
    "ts": "Nov 23 00:00:02 {}",
    "a script": "[2026-11-23 00:00:02] {}",
    "kubectl logs --prefix --timestamps": "[pod/train-0/pytorch] 2026-11-23T00:00:02.123456789Z {}",
    "stern": "train-worker-0 pytorch {}",
    "docker compose logs": "worker-1  | {}",
    "CloudWatch": "  | 2026-11-23T00:00:02.123Z | {}",
    "a quotation": "> {}",
    "a quotation of one": "> > {}",
    "an indented paste": "    {}",
    "cat -n": "    12\t{}",
    "colours": "\x1b[36m{}\x1b[0m",
    "another system's ends of lines": "{}\r",
}
"""By what puts it there, what a line becomes."""


def headed_text(head: str, text: str) -> str:
    return "\n".join(map(head.format, text.splitlines())) + "\n"


def tail(files: Mapping[str, str]) -> str:
    return "".join(f"==> {name} <==\n{text}\n" for name, text in files.items())


def grep(files: Mapping[str, str], *, numbers: bool = False) -> str:
    lines = ((name, at, line) for name, text in files.items() for at, line in enumerate(text.split("\n"), 1))
    return "".join(f"{name}:{f'{at}:' * numbers}{line}\n" for name, at, line in lines)


def markdown(heading: str, files: Mapping[str, str]) -> str:
    blocks = (f"{heading.format(name)}\n\n```text\n{text}\n```\n\n" for name, text in files.items())
    return "".join(("It hangs since this morning.\n\n", *blocks))


PASTES: dict[str, Paste] = {
    "tail": tail,
    "grep -r": grep,
    "grep -rn": partial(grep, numbers=True),
    "headings": partial(markdown, "### {}"),
    "bold names": partial(markdown, "**{}**:"),
    "names in code": partial(markdown, "`{}`"),
    "plain names": partial(markdown, "{}:"),
}
