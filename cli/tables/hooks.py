"""What a scheduler would be asked to do, as a shell would be given it."""

import shlex

from collector.show.hooks import Hook
from collector.show.text.printable import printable


def hook_text(hook: Hook) -> str:
    """Return what it is for as a comment, then the command, with what it reads, or the document alone."""
    about = f"# {hook.about}" + (f", on {printable(hook.host, most=80)}" if hook.host else "")
    command = shlex.join(hook.command)
    send = shlex.quote(hook.send) if command and hook.send else hook.send
    given = f"printf %s {send} | {command}" if command and send else command or send
    return f"{about}\n{given}\n"
