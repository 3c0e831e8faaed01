"""Builds a stand-in for the libraries of CUDA that a PyTorch wants, in a folder to put on LD_LIBRARY_PATH.

The libraries of PyTorch bind functions when they are first called, so that one library under all the names that they
ask for does: it has the functions of `fake_cuda.c`, and for every other one that they lack, one that returns 0.
"""

import re
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "fake_cuda.c"
# 0x0000000000000001 (NEEDED)             Shared library: [libcudart.so.13]
_NEEDED = re.compile(r"\(NEEDED\) .*\[([\w.+-]+)\]")
_OF_CUDA = re.compile(r"lib(?:cu|nv|nccl)\w*[\w-]*\.so")
#                  U cudaMalloc@libcudart.so.13
_WANTED = re.compile(r"^ +[Uw] ((?:__cuda|cu|nccl|nv)\w+)", re.MULTILINE)


def build(torch: Path, folder: Path) -> Path:
    """Write the libraries that those in `torch/lib` lack. Returns one of them, whose function `fake_cuda_hang` is."""
    libraries = sorted((torch / "lib").glob("lib*.so*"))
    names = set(_NEEDED.findall(_output("readelf", "--dynamic", "--wide", *map(str, libraries))))
    wanted = set(_WANTED.findall(_output("nm", "--dynamic", "--undefined-only", *map(str, libraries))))
    rest = folder / "rest.c"
    rest.write_text("".join(f"__attribute__((weak)) long {name}(void) {{ return 0; }}\n" for name in sorted(wanted)))
    stand_in = folder / "libstandin.so"
    # Two files: in one, a weak definition could not have another type than the strong one.
    flags = ("-w", "-fno-builtin", "-shared", "-fPIC", "-o", str(stand_in))
    subprocess.run(("cc", *flags, str(_SOURCE), str(rest)), check=True)
    present = {library.name for library in libraries}
    for name in names - present:
        if _OF_CUDA.match(name):
            (folder / name).symlink_to(stand_in.name)
    return stand_in


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
