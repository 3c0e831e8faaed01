"""Builds stand-ins for the libraries of CUDA and NCCL that a PyTorch wants, into a folder for LD_LIBRARY_PATH.

One library per soname, with the names that PyTorch's own libraries import from it, under the version node that they ask
for. What no C source of `sources/` defines returns an error or, in libraries of mathematics, success and nothing else.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_SOURCES = Path(__file__).parent / "sources"
_WRITTEN = {
    "libcudart": ("cudart.c", "real_nccl.c"),
    "libcuda": ("cuda.c",),
    "libnccl": ("nccl.c", "payload.c", "ras.c"),
}
"""What stands in for more than success."""
NVML = "libnvidia-ml.so.1"
"""For whoever watches a job: a link to it in the job's folder, and that in the reader's LD_LIBRARY_PATH."""
_NOT_SUPPORTED = {"libcudart": 801, "libcuda": 801, "libnccl": 5}
"""What the rest of their functions return; 0 in other libraries."""
_PREFIXES = {
    "libcudart": r"_*cuda",
    "libcuda": r"cu[A-Z](?!File)",
    "libcufile": r"cuFile",
    "libnccl": r"p?nccl",
    "libcurand": r"curand",
    "libcusparseLt": r"cusparseLt",
    "libnvshmem_host": r"nvshmem",
}
"""Whose a name is where PyTorch asks for no version node, or for one that is not called as the library is."""
# Requires-Dist: nvidia-nccl-cu12==2.27.5; platform_system == "Linux"
# Requires-Dist: nvidia-nccl-cu12 (==2.20.5) ; platform_system == "Linux" and platform_machine == "x86_64"
_NCCL = re.compile(r"^Requires-Dist: nvidia-nccl-cu\d+ ?\(?==(\d+)\.(\d+)\.(\d+)", re.MULTILINE)
_OLDEST_NCCL = (2, 20, 5)
# cuda: Optional[str] = '12.8'        cuda = '12.1'
_CUDA = re.compile(r"^cuda\s*(?::[^=\n]*)?=\s*'(\d+)\.(\d+)'", re.MULTILINE)
_FLAGS = tuple("-w -O1 -g -fno-builtin -fno-omit-frame-pointer -shared -fPIC -pthread".split())
# 0x0000000000000001 (NEEDED)             Shared library: [libcudart.so.13]
_NEEDED = re.compile(r"\(NEEDED\) .*\[(lib(?:cu|nv|nccl)\w*\.so\.\d+)\]")
#                  U cudaMalloc@libcudart.so.13
_WANTED = re.compile(r"^ +[Uw] (\w+)(?:@+([\w.+-]+))?$", re.MULTILINE)


class NotBuilt(Exception):
    """A stand-in could not be built; the text says why."""


def digest(real_nccl: Path | None) -> str:
    """Return what changes when the stand-ins do."""
    found = hashlib.sha256(str(real_nccl and real_nccl.resolve()).encode())
    for source in (Path(__file__), *sorted(_SOURCES.iterdir())):
        found.update(source.read_bytes())
    return found.hexdigest()[:12]


def require_tools() -> None:
    """Raise NotBuilt where nothing can be built here."""
    if lacking := [name for name in ("cc", "readelf", "nm") if shutil.which(name) is None]:
        raise NotBuilt(
            f"the lab needs a C compiler (cc) and binutils (readelf, nm), and there is no {', no '.join(lacking)} here"
        )


def build(site: Path, folder: Path, *, real_nccl: Path | None = None) -> None:
    """Write the libraries that those of the PyTorch in `site` lack. Raises NotBuilt."""
    require_tools()
    folder.mkdir(parents=True, exist_ok=True)
    libraries = sorted((site / "torch" / "lib").glob("lib*.so*"))
    versions = _versions(site)
    needed = sorted(set(_NEEDED.findall(_output("readelf", "--dynamic", "--wide", *map(str, libraries)))))
    given = () if real_nccl is None else (_required(real_nccl),)
    wanted = set(_WANTED.findall(_output("nm", "--dynamic", "--undefined-only", *map(str, (*libraries, *given)))))
    # Those with a source first: NCCL's is linked to the runtime's.
    for soname in sorted(needed, key=lambda name: (_stem(name) not in _WRITTEN, name)):
        if _stem(soname) == "libnccl" and real_nccl is not None:
            (folder / soname).unlink(missing_ok=True)
            (folder / soname).symlink_to(real_nccl.resolve())
        else:
            _build(folder, soname, dict(_names_of(soname, wanted)), versions)
    (folder / "nvml").mkdir()  # apart: PyTorch would load it
    _compile(folder / "nvml" / NVML, str(_SOURCES / "nvml.c"), f"-Wl,-soname,{NVML}")


def _required(nccl: Path) -> Path:
    """Return the library if it uses CUDA's runtime as a shared one, as PyPI's does not. Raises NotBuilt."""
    command = ("readelf", "--dynamic", "--wide", str(nccl))
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if not any(_stem(soname) == "libcudart" for soname in _NEEDED.findall(told)):
        raise NotBuilt(f"{nccl} is no NCCL that was built with CUDARTLIB=cudart, to use CUDA's runtime as a library")
    return nccl


def _versions(site: Path) -> tuple[str, str]:
    """Return how the compiler is told which versions of CUDA and NCCL a PyTorch expects, as they number them."""
    cuda = _CUDA.search((site / "torch" / "version.py").read_text())
    if cuda is None:
        raise NotBuilt("the wheel of PyTorch is one without CUDA")
    nccl = _NCCL.search(next(site.glob("torch-*.dist-info/METADATA")).read_text())
    major, minor, patch = (int(number) for number in nccl.groups()) if nccl is not None else _OLDEST_NCCL
    numbers = 1000 * int(cuda[1]) + 10 * int(cuda[2]), 10000 * major + 100 * minor + patch
    return f"-DLAB_CUDA={numbers[0]}", f"-DLAB_NCCL={numbers[1]}"


def _names_of(soname: str, wanted: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the names that PyTorch imports from a library, and each with its version node, "" without."""
    prefix = re.compile(_PREFIXES.get(_stem(soname), r"(?!)"))
    for name, node in wanted:
        if node == soname or (".so." not in node and prefix.match(name)):
            yield name, node


def _build(folder: Path, soname: str, names: dict[str, str], defines: Sequence[str]) -> None:
    stem = _stem(soname)
    rest = folder / f"{stem}.rest.c"
    result = _NOT_SUPPORTED.get(stem, 0)
    rest.write_text("".join(f"__attribute__((weak)) long {name}(void) {{ return {result}; }}\n" for name in names))
    sources = [str(rest), *(str(_SOURCES / name) for name in _WRITTEN.get(stem, ()))]
    flags = [f"-Wl,-soname,{soname}"]
    nodes = sorted({node for node in names.values() if node})
    if nodes:
        script = folder / f"{stem}.map"
        script.write_text("".join(f"{node} {{ global: *; }};\n" for node in nodes))
        flags.append(f"-Wl,--version-script={script}")
    if stem == "libnccl":
        sources += [str(library) for library in folder.glob("libcudart.so.*")]
    target = folder / soname
    if stem == "libnccl":  # as a system's, it says its version in its file's name
        number = next(int(one.partition("=")[2]) for one in defines if "NCCL" in one)
        target = folder / f"libnccl.so.{number // 10000}.{number // 100 % 100}.{number % 100}"
        (folder / soname).symlink_to(target.name)
    _compile(target, *sources, *flags, *defines)


def _compile(target: Path, *words: str) -> None:
    done = subprocess.run(("cc", *_FLAGS, "-o", str(target), *words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt(f"cc could not build {target.name}: {done.stderr.strip()[:2000]}")


def _stem(soname: str) -> str:
    return soname.partition(".")[0]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
