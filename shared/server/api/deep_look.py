"""What a closer look at one rank is asked for, of an agent and of a collector alike."""

from typing import Annotated

from fastapi import Query

from shared.wire.debug_output import How

DeepHow = Annotated[
    How,
    Query(description="`gdb`, `pystack`: backtraces; `syscalls`: system calls for some seconds.", examples=[How.GDB]),
]
TracedSeconds = Annotated[float, Query(ge=0.1, le=20.0, description="How long system calls are traced.")]
ChildPid = Annotated[int | None, Query(ge=1, description="Look at this child process of the rank instead.")]
