"""Asks the compiler where fields lie, without running or linking anything.

A program is generated whose only content is an array of numbers behind a marker. It is compiled to an object file, and
the numbers are read out of that. For each field of each structure: where it lies, how large it is, and how large its
items are where it holds any. -1 stands for a field that these headers do not declare.
"""

import struct
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from deploy.layouts.structs import FIELDS, headers, types


class Structure(TypedDict):
    """In bytes. A field: its offset, its size, and the size of an item where it is a container."""

    size: int
    fields: dict[str, list[int]]


STUBS = Path(__file__).parent / "stubs"
_MARKER = (0x3A5F_1C77_90D2_4E6B, 0x6C01_F2B8_5D3E_A947)
_END = 0x7E57_0000_1A0F_7E57
_BEGINNING = """
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>
"""
_NO_GARBAGE_COLLECTION = ("--param", "ggc-min-heapsize=4000000", "--param", "ggc-min-expand=1000")
"""The compiler takes 1.3 GB for PyTorch's headers, or a fifth of its time to look through them for what it may drop."""
_QUESTIONS = r"""
// What libstdc++ makes of std::tuple<std::string, std::string>: the second comes first.
struct StringPair {
  std::string second, first;
};
static_assert(sizeof(StringPair) == sizeof(std::tuple<std::string, std::string>));

// What lies before the characters of an old string; a new one has nothing there.
#if _GLIBCXX_USE_CXX11_ABI
struct StringHead {};
#else
using StringHead = std::string::_Rep;
#endif

template <class T, class = void>
constexpr long item_size = 0;
template <class T>
constexpr long item_size<T, std::void_t<typename T::value_type>> = sizeof(typename T::value_type);

#define FIELD(NAME, PATH)                                                      \
  template <class T, class = void>                                             \
  struct NAME {                                                                \
    static constexpr long at = -1, size = -1, item = -1;                       \
  };                                                                           \
  template <class T>                                                           \
  struct NAME<T, std::void_t<decltype(std::declval<T&>().PATH)>> {             \
    using Type = std::remove_cvref_t<decltype((std::declval<T&>().PATH))>;     \
    static constexpr long at = offsetof(T, PATH), size = sizeof(Type);         \
    static constexpr long item = item_size<Type>;                              \
  };
#define ANSWER(FIELD) FIELD::at, FIELD::size, FIELD::item
"""


class NotCompiled(Exception):
    """The compiler refused. Its first error follows."""


def probe(include: Path, *, cuda: bool, new_strings: bool, more: Iterable[Path] = ()) -> dict[str, Structure]:
    """Return by name the structures that the headers in `include` declare; in `more` are those of CUDA and NCCL.

    `new_strings`: with _GLIBCXX_USE_CXX11_ABI=1. Raises NotCompiled.
    """
    cpp = types(include, cuda=cuda)
    asked = [(name, *_split(field)) for name in cpp for field in FIELDS[name].split()]
    text = _program(cpp, headers(include, cuda=cuda), [path for _, _, path in asked], [name for name, _, _ in asked])
    folders = [include, include / "torch/csrc/api/include", STUBS, *more]
    numbers = iter(_numbers(_compile(text, folders, cuda=cuda, new_strings=new_strings)))
    structures: dict[str, Structure] = {name: {"size": next(numbers), "fields": {}} for name in cpp}
    for name, field, _ in asked:
        at, size, item = next(numbers), next(numbers), next(numbers)
        if at >= 0:
            structures[name]["fields"][field] = [at, size, item] if item else [at, size]
    return {name: structure for name, structure in structures.items() if structure["fields"]}


def _split(field: str) -> tuple[str, str]:
    name, _, path = field.partition("=")
    return name, path or name


def _program(cpp: Mapping[str, str], included: Iterable[str], paths: Sequence[str], owners: Sequence[str]) -> str:
    lines = [_BEGINNING, *(f"#include <{header}>" for header in included)]
    lines.append(_QUESTIONS)
    lines += [f"using struct_{name} = {text};" for name, text in cpp.items()]
    lines += [f"FIELD(field_{number}, {path})" for number, path in enumerate(paths)]
    numbers = [f"{word:#x}" for word in _MARKER]
    numbers += [f"sizeof(struct_{name})" for name in cpp]
    numbers += [f"ANSWER(field_{number}<struct_{owner}>)" for number, owner in enumerate(owners)]
    numbers += [str(_END)]
    lines.append(f'extern "C" const long unhang_answer[] = {{{", ".join(numbers)}}};')
    return "\n".join(lines) + "\n"


def _compile(text: str, folders: Iterable[Path], *, cuda: bool, new_strings: bool) -> bytes:
    with tempfile.TemporaryDirectory(prefix="unhang-layouts-") as folder:
        source, compiled = Path(folder, "probe.cpp"), Path(folder, "probe.o")
        source.write_text(text)
        command = ["g++", "-c", "-std=c++20", "-w", "-fno-access-control", "-fmax-errors=3", "-o", str(compiled)]
        command += _NO_GARBAGE_COLLECTION
        command += [f"-D_GLIBCXX_USE_CXX11_ABI={new_strings:d}", "-DUSE_C10D_GLOO", "-DUSE_DISTRIBUTED"]
        command += ["-DUSE_C10D_NCCL", "-DUSE_CUDA"] if cuda else []
        command += [f"-I{searched}" for searched in folders]
        done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotCompiled(done.stderr[:4000])
        return compiled.read_bytes()


def _numbers(compiled: bytes) -> list[int]:
    marker = struct.pack("<2q", *_MARKER)
    start = compiled.index(marker) + len(marker)
    end = compiled.index(struct.pack("<q", _END), start)
    return [number for (number,) in struct.iter_unpack("<q", compiled[start:end])]
