"""What `unhang.pyz` does first: lay itself out in a private directory, run the command from there, and remove it.

Extension modules and py-spy cannot run out of an archive. The directory is new each time and is no cache: home
directories are often on the very file system that hangs, and what lies in /tmp may be someone else's. Only the wheels
for this Python and this machine are laid out. An old Python can read this file far enough to say that it is too old.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import zipfile

TARGETS = "TARGETS.json"
"""For which Pythons and machines the archive is, in words, and which wheels each of them needs."""

WHEELS = "wheels/"
"""Each wheel lies in a folder of its own beneath this one."""

_NOT_HERE = ("collector", "probe-path", "run")
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_OLDEST_GLIBC = (2, 17)


def main():
    # type: () -> None
    """Run the command line, and leave nothing behind."""
    path = __file__.rpartition(os.sep)[0]
    if sys.argv[1:2] and sys.argv[1] in _NOT_HERE:
        sys.exit("unhang.pyz holds what looks at a node; for `unhang %s` install unhang" % sys.argv[1])  # noqa: UP031
    wheels = _wheels(path)
    for number in _ENDING_SIGNALS:
        signal.signal(number, _end)
    folder = tempfile.mkdtemp(prefix="unhang-", dir=_place())
    try:
        _lay_out(path, folder, wheels)
        status = _run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that are stuck beside a stuck process must not hold us


def _end(number, _):
    # type: (int, object) -> None
    sys.exit(128 + number)


def _wheels(path):
    # type: (str) -> list[str]
    """Return the wheels for here; leave with a sentence where there are none."""
    with zipfile.ZipFile(path) as archive:
        index = json.loads(archive.read(TARGETS).decode())
    tag = "cp%d%d-%s" % (sys.version_info[0], sys.version_info[1], os.uname()[4])  # noqa: UP031
    wheels = index["wheels"].get(tag)  # type: list[str] | None
    unfit = _unfit() if wheels is not None else "Python %d.%d" % sys.version_info[:2]  # noqa: UP031
    if wheels is None or unfit:
        sys.exit(
            "this unhang.pyz is for %s, Linux with glibc 2.17 or newer; here is %s on %s %s: "  # noqa: UP031
            "call it with another Python, such as the job's own" % (index["words"], unfit, os.uname()[0], os.uname()[4])
        )
    return wheels


def _unfit():
    # type: () -> str
    """Say what keeps compiled wheels for this version and machine from being used here; nothing: an empty string."""
    glibc = _glibc()
    if sys.implementation.name != "cpython":
        return sys.implementation.name
    if "t" in sys.abiflags:
        return "a free-threaded Python"  # https://docs.python.org/3/howto/free-threading-extensions.html
    if sys.maxsize < 2**32:
        return "a 32-bit Python"
    if glibc is None:
        return "a Python without glibc"
    return "glibc %d.%d" % glibc if glibc < _OLDEST_GLIBC else ""  # noqa: UP031


def _glibc():
    # type: () -> tuple[int, int] | None
    """Return the version of the C library that runs this Python; None if it is another one, such as musl."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        numbers = version.split(".")
        return (int(numbers[0]), int(numbers[1])) if name == "glibc" else None
    except (ValueError, OSError, IndexError):
        return None


def _place():
    # type: () -> str
    """Return the first usual directory from which programs may be run; leave with a sentence where there is none."""
    folders = (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", os.environ.get("XDG_RUNTIME_DIR"))
    for folder in folders:
        try:
            if folder and os.access(folder, os.W_OK | os.X_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
                return folder
        except OSError:
            continue
    sys.exit("unhang.pyz finds no directory to write to and run programs from: name one by TMPDIR")


def _lay_out(path, folder, wheels):
    # type: (str, str, list[str]) -> None
    """Write our files and those of these wheels to the folder, as pip would have installed them."""
    tops = tuple(WHEELS + wheel + "/" for wheel in wheels)
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.startswith(WHEELS):
                    top = next((top for top in tops if member.filename.startswith(top)), None)
                    if top is None:
                        continue
                    member.filename = member.filename[len(top) :]
                archive.extract(member, folder)
    except OSError as error:
        sys.exit("unhang.pyz cannot be laid out in %s: %s" % (folder, error.strerror or error))  # noqa: UP031


def _run(folder):
    # type: (str) -> int
    py_spy = os.path.join(folder, "bin", "py-spy")
    if os.path.exists(py_spy):
        os.chmod(py_spy, 0o700)
        os.environ.setdefault("UNHANG_AGENT_PY_SPY", py_spy)
    for number in _ENDING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # the command line takes them from here on
    sys.dont_write_bytecode = True  # nobody would read it
    sys.path[0] = folder
    from cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
