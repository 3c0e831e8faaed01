"""An MCP server of the tools, for one client. It imports the package `mcp`, which is an extra."""

import json
import re
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from collector.question import Step
from collector.show.mcp.answers import NOTICE
from collector.show.mcp.described import TOOLS
from collector.show.mcp.rest import Rest
from collector.show.mcp.tools import RUNS
from shared import VERSION
from shared.errors import InvalidInput, UnhangError, quoted

_INSTRUCTIONS = f"""Finds the rank that hung a distributed training job, or died first, where it is, and what proves it.
Start with list_jobs, then diagnose_job. `next` is the `cursor` of the next page; null: there is none.
{NOTICE} Nothing here changes a job."""

_BY_NAME = {tool.name: tool for tool in TOOLS}


def make_server(rest: Rest) -> Server[Any]:
    """Return a server whose tools ask `rest`."""

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(_LISTED))

    async def call_tool(context: ServerRequestContext[Any], called: CallToolRequestParams) -> CallToolResult:
        try:
            return _answered(await _run(rest, context, called))
        except UnhangError as error:
            return _failed(error)

    return Server(
        "unhang",
        version=VERSION,
        title="unhang",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _run(rest: Rest, context: ServerRequestContext[Any], called: CallToolRequestParams) -> dict[str, Any]:
    tool = _BY_NAME.get(called.name)
    if tool is None:
        raise InvalidInput(f"there is no tool {quoted(called.name)}", advice=f"there are: {', '.join(_BY_NAME)}")
    try:
        wanted = tool.takes.model_validate(called.arguments or {}).model_dump(mode="json")
    except ValidationError as error:
        raise InvalidInput("; ".join(map(_in_argument, error.errors(include_url=False)[:_MOST_WRONG]))) from error
    steps = 0

    async def on_step(step: Step) -> None:
        nonlocal steps
        steps += 1
        await context.session.report_progress(steps, message=_in_words(step))

    return await RUNS[tool.name](rest, wanted, on_step)


_MOST_WRONG = 4
_OF_ENUM = re.compile(r"<[\w.]+: ('\w+')>")


def _in_argument(error: ErrorDetails) -> str:
    """Name the argument, and what is wrong with it."""
    name = quoted(".".join(map(str, error["loc"])))
    match error["type"]:
        case "missing":
            return f"the argument {name} is missing"
        case "extra_forbidden":
            return f"there is no argument {name}"
    wrong = f"the argument {name} cannot be {quoted(str(error['input']))}"
    if error["type"] in ("enum", "literal_error"):  # <IncidentState.OPENED: 'opened'>
        one_of = _OF_ENUM.sub(r"\1", error["ctx"]["expected"])
        return f"{wrong}: it is one of {one_of}"
    return f"{wrong}: {error['msg']}"


def _in_words(step: Step) -> str:
    so_far = f", {step.finished} of {step.asked} nodes" if step.asked > 1 else ""
    return f"{step.stage.value.replace('_', ' ')}{so_far}"


def _answered(document: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[_text(document)], structured_content=document)


def _failed(error: UnhangError) -> CallToolResult:
    """Return a tool error. It may quote names of jobs, and is marked like an answer; what the client wrote is not."""
    said = {"error": str(error), "advice": error.advice}
    if isinstance(error, InvalidInput):
        return CallToolResult(content=[_text(said)], is_error=True)
    return CallToolResult(content=[_text({"notice": NOTICE, "untrusted": said})], is_error=True)


def _text(document: dict[str, Any]) -> TextContent:
    return TextContent(type="text", text=json.dumps(document))


_LISTED = tuple(
    Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )
    for tool in TOOLS
)
