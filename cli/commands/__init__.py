"""One file per command. None of them imports anything heavy before it runs."""

import click

from cli.commands.core import core
from cli.commands.diagnose import diagnose
from cli.commands.installation import plugins, probe_path, version
from cli.commands.look import look
from cli.commands.mcp import mcp
from cli.commands.preflight import preflight
from cli.commands.rules import rules
from cli.commands.run import run
from cli.commands.services import agent, collector
from cli.commands.snapshot import snapshot
from cli.commands.views import check, fds, jobs, logs, sequences, stacks
from cli.commands.watched.compare import compare
from cli.commands.watched.history import history
from cli.commands.watched.hooks import hooks
from cli.commands.watched.incidents import incidents
from cli.commands.watched.notify import notify
from cli.commands.watched.silence import silence
from cli.commands.watched.watch import watch

COMMANDS: tuple[click.Command, ...] = (
    agent,
    check,
    collector,
    compare,
    core,
    diagnose,
    fds,
    history,
    hooks,
    incidents,
    jobs,
    logs,
    look,
    mcp,
    notify,
    plugins,
    preflight,
    probe_path,
    rules,
    run,
    sequences,
    silence,
    snapshot,
    stacks,
    version,
    watch,
)
