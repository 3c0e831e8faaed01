"""`unhang mcp`: tools for a language model, over standard input and output."""

from importlib import import_module

import click

from cli.command_table import command
from cli.options import named_collector, tls_files


@command("mcp")
@click.pass_context
def mcp(context: click.Context) -> None:
    """Answer an MCP client on standard input and output until it closes them.

    The tools list jobs, diagnose one, and show diagnoses, stacks, sequences, logs and checks. None changes anything.
    """
    import_module("mcp")  # of the extra: whoever lacks it hears so first
    from cli.mcp_stdio import serve_collector, serve_one_box

    if (url := named_collector()) is not None:
        serve_collector(url, context.meta["--token-file"], tls_files())
    else:
        serve_one_box()
