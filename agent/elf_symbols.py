"""Finds where a program or library keeps a variable, from its ELF symbol table.

The file belongs to the inspected process and may be made up to waste our time: everything pyelftools reads
goes through a budget of bytes and reads.
"""

import io
import os
import stat
from typing import IO, cast

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashSection
from elftools.elf.sections import Symbol, SymbolTableSection

_MOST_READS = 400_000
_MOST_BYTES = 32 * 1024 * 1024
_MOST_SECTIONS = 512


class _Budget(io.RawIOBase):
    """A read-only file that gives up after so many reads or bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._reads, self._bytes = file, 0, 0

    def read(self, size: int = -1) -> bytes:
        self._reads += 1
        self._bytes += max(size, 0)
        if size < 0 or self._reads > _MOST_READS or self._bytes > _MOST_BYTES:
            raise ELFError("this file wants more reading than a symbol is worth")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def find_symbol(path: str, name: str) -> int | None:
    """Return the address, relative to the load address, of variable `name` in the file's dynamic symbols.

    None where the file defines no such symbol, is no ELF file, or is not worth reading.
    """
    try:
        with _open_regular(path) as file:
            return _dynamic_symbol(ELFFile(cast(IO[bytes], _Budget(file))), name)
    except (ELFError, OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, UnicodeError):
        return None
    except (OverflowError, MemoryError, RecursionError, IndexError):
        return None


def _open_regular(path: str) -> IO[bytes]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a plain file")
    return os.fdopen(fd, "rb")


def _dynamic_symbol(elf: ELFFile, name: str) -> int | None:
    if elf.num_sections() > _MOST_SECTIONS:
        return None
    section = elf.get_section_by_name(".dynsym")
    if not isinstance(section, SymbolTableSection):
        return None
    hashed = elf.get_section_by_name(".gnu.hash")
    symbol = hashed.get_symbol(name) if isinstance(hashed, GNUHashSection) else _scan(section, name)
    if symbol is None or symbol["st_shndx"] == "SHN_UNDEF" or symbol["st_value"] == 0:
        return None
    return int(symbol["st_value"]) - _lowest_address(elf)


def _scan(section: SymbolTableSection, name: str) -> Symbol | None:
    return next((s for s in section.iter_symbols() if s.name == name), None)


def _lowest_address(elf: ELFFile) -> int:
    """Return the address at which the first loaded segment wants to be: 0 but for old fixed executables."""
    segments = (s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD")
    return min((int(s["p_vaddr"]) - int(s["p_vaddr"]) % 4096 for s in segments), default=0)
