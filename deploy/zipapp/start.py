"""What `unhang.pyz` does first: lay itself out in a private directory, run the command from there, and remove it.

Extension modules and py-spy cannot run out of an archive. The directory is made anew each time and is no cache: home
directories are often on the very file system that hangs, and what lies in /tmp may be someone else's. Written so that
an old Python can read it far enough to say that it is too old.
"""

import os
import shutil
import signal
import sys
import tempfile
import zipfile

BUILT_FOR = "BUILT_FOR"
"""Names the Python and the machine that the extension modules inside are for, as `built_for` writes it."""

_NOT_HERE = ("collector", "probe-path", "run")
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def built_for():
    # type: () -> str
    """Return what an archive must be built for to run here, such as `cpython-311 x86_64`."""
    tag = sys.implementation.cache_tag if sys.version_info >= (3, 3) else "Python %d.%d" % sys.version_info[:2]  # noqa: UP031
    return "%s %s" % (tag, os.uname()[4])  # noqa: UP031 - an old Python reads this


def main():
    # type: () -> None
    """Run the command line, and leave nothing behind."""
    path = __file__.rpartition(os.sep)[0]
    if sys.argv[1:2] and sys.argv[1] in _NOT_HERE:
        sys.exit("unhang.pyz holds what looks at a node; for `unhang %s` install unhang" % sys.argv[1])  # noqa: UP031
    _check(path)
    for number in _ENDING_SIGNALS:
        signal.signal(number, _end)
    folder = tempfile.mkdtemp(prefix="unhang-", dir=_place())
    try:
        _lay_out(path, folder)
        status = _run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that are stuck beside a stuck process must not hold us


def _end(number, _):
    # type: (int, object) -> None
    sys.exit(128 + number)


def _place():
    # type: () -> str | None
    """Return the first usual directory from which programs may be run; None: wherever tempfile finds room."""
    for folder in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", os.environ.get("XDG_RUNTIME_DIR")):
        try:
            if folder and os.access(folder, os.W_OK | os.X_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
                return folder
        except OSError:
            continue
    return None


def _check(path):
    # type: (str) -> None
    """Leave with a sentence where the extension modules inside cannot be used."""
    with zipfile.ZipFile(path) as archive:
        wanted = archive.read(BUILT_FOR).decode()
    if wanted != built_for():
        advice = "call it with such a Python, the job's own perhaps, or build one for this (make zipapp)"
        sys.exit("this unhang.pyz is for %s, and here is %s: %s" % (wanted, built_for(), advice))  # noqa: UP031


def _lay_out(path, folder):
    # type: (str, str) -> None
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)


def _run(folder):
    # type: (str) -> int
    py_spy = os.path.join(folder, "bin", "py-spy")
    if os.path.exists(py_spy):
        os.chmod(py_spy, 0o700)
        os.environ.setdefault("UNHANG_AGENT_PY_SPY", py_spy)
    for number in _ENDING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # the command line takes them from here on
    sys.path[0] = folder
    from cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
