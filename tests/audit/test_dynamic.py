"""What libraries tell the dynamic linker, compared with what pyelftools reads from their sections."""

from __future__ import annotations

import _ctypes
import math
import struct
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from devicefiles import FOLDER
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection
from hypothesis import given, settings
from hypothesis import strategies as st
from solibs import TABLES, compiled, dynamic_elf, linkage_of, linked, segments

from orchestrator.audit import elf
from orchestrator.audit.dynamic import FRONT_AT_MOST, Linkage, read_linkage, wanted_ranges
from orchestrator.audit.stream import ChunkStream

NEEDED, HASH, STRTAB, SYMTAB, STRSZ = 1, 4, 5, 6, 10
GNU_HASH, VERNEED, VERNEEDNUM = 0x6FFFFEF5, 0x6FFFFFFE, 0x6FFFFFFF
SOURCE = """
#include <string>
#include <cmath>
extern "C" { int absent(int); __attribute__((weak)) int maybe(int); int shown = 3; }
namespace own { std::string text(double x) { return std::to_string(std::sqrt(x)); } }
__attribute__((visibility("hidden"))) int hidden() { return absent(1) + (maybe ? maybe(2) : 0); }
int visible() { return hidden(); }
__attribute__((weak)) int replaceable() { return 1; }
"""


def tool_says(command: str) -> Path:
    return Path(subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout.strip())


def oracle(path: Path) -> Linkage:
    """Read a library with pyelftools."""
    with path.open("rb") as file:
        image = ELFFile(file)
        dynamic = next(section for section in image.iter_sections() if isinstance(section, DynamicSection))
        tags = list(dynamic.iter_tags())
        symbols = image.get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        sets: dict[str, set[str]] = {"undefined": set(), "weak": set(), "defined": set()}
        for symbol in symbols.iter_symbols():
            bind = symbol["st_info"]["bind"]
            if bind == "STB_LOCAL" or not symbol.name:
                continue
            if symbol["st_shndx"] != "SHN_UNDEF":
                if symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED"):
                    sets["defined"].add(symbol.name)
            else:
                sets["weak" if bind == "STB_WEAK" else "undefined"].add(symbol.name)
        versions = image.get_section_by_name(".gnu.version_r")
        needed_versions = (
            {aux.name for _, inner in versions.iter_versions() for aux in inner if not aux["vna_flags"] & 2}
            if isinstance(versions, GNUVerNeedSection)
            else set()
        )
        return Linkage(
            machine={"EM_X86_64": 62, "EM_AARCH64": 183}[image["e_machine"]],
            needed=tuple(vars(tag)["needed"] for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
            soname=next((vars(tag)["soname"] for tag in tags if tag.entry.d_tag == "DT_SONAME"), None),
            runpath=tuple(
                part
                for tag in tags
                if tag.entry.d_tag == "DT_RUNPATH"
                for part in vars(tag)["runpath"].split(":")
            ),
            undefined=frozenset(sets["undefined"]),
            weak=frozenset(sets["weak"] - sets["undefined"]),
            defined=frozenset(sets["defined"]),
            versions=frozenset(needed_versions),
        )


def test_libraries_of_this_machine_read_as_pyelftools_reads_them() -> None:
    paths = [
        tool_says("g++ -print-file-name=libstdc++.so.6"),
        tool_says("g++ -print-file-name=libc.so.6"),
        tool_says("g++ -print-file-name=libm.so.6"),
        *(Path(place) for module in (_ctypes, math) if (place := getattr(module, "__file__", None))),
        *sorted(FOLDER.glob("*.so")),
    ]
    read = {path.name: linkage_of(path.read_bytes()) for path in paths}
    found = {name: linkage for name, linkage in read.items() if linkage is not None}
    assert found == {path.name: oracle(path) for path in paths if path.name in found}
    assert len(found) >= 4


@pytest.mark.parametrize(
    "flags",
    [
        ("-Wl,--hash-style=gnu",),
        ("-Wl,--hash-style=sysv",),
        ("-Wl,--hash-style=both", "-Wl,-z,now"),
        ("-Wl,--hash-style=gnu", "-fvisibility=hidden", "-Wl,--exclude-libs,ALL", "-lm"),
        ("-Wl,-rpath,$ORIGIN/../lib:/opt/x", "-Wl,--enable-new-dtags"),
        ("-static-libstdc++", "-static-libgcc", "-Wl,--strip-all"),
        ("-fuse-ld=gold",),
    ],
    ids=" ".join,
)
def test_layouts_of_linkers(tmp_path: Path, flags: tuple[str, ...]) -> None:
    path = compiled(tmp_path, "libown.so", SOURCE, *flags)
    assert linked(path) == oracle(path)
    assert "absent" in linked(path).undefined
    assert "maybe" in linked(path).weak


def test_a_library_that_exports_nothing_still_tells_what_it_lacks(tmp_path: Path) -> None:
    """GNU_HASH holds what is exported only, and so does not say how many symbols there are."""
    source = 'extern "C" int absent(); static int x = absent();'
    path = compiled(
        tmp_path, "libmute.so", source, "-nostdlib", "-Wl,--hash-style=gnu", "-fvisibility=hidden"
    )
    found = linked(path)
    assert found.undefined == {"absent"}
    assert not found.defined


def test_soname_needed_and_old_rpath(tmp_path: Path) -> None:
    base = compiled(tmp_path, "libbase.so", "int base() { return 1; }")
    flags = ("-Wl,--no-as-needed", base, "-Wl,--disable-new-dtags,-rpath,$ORIGIN:/opt/lib")
    found = linked(compiled(tmp_path, "libtop.so", "int base(); int top() { return base(); }", *flags))
    assert found.soname == "libtop.so"
    assert found.needed[0] == "libbase.so"
    assert found.runpath == ("$ORIGIN", "/opt/lib")
    assert found.machine == linked(base).machine
    assert "_Z4basev" in found.undefined & linked(base).defined


def test_versions_of_glibc(tmp_path: Path) -> None:
    source = "#include <unistd.h>\nlong now() { return getpid(); }"
    versions = linked(compiled(tmp_path, "libv.so", source)).versions
    assert any(version.startswith("GLIBC_2.") for version in versions)


def test_what_is_not_dynamic(tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.write_text("int x;")
    command = ["gcc", "-c", str(source), "-o", str(tmp_path / "x.o")]
    subprocess.run(command, check=True)
    data = (tmp_path / "x.o").read_bytes()
    assert linkage_of(data) is None
    header = elf.read_header(data)
    assert header is not None
    assert wanted_ranges(header, data) == ()


def test_kept_ranges_are_enough_and_chunks_do_not_matter(tmp_path: Path) -> None:
    path = compiled(tmp_path, "libbig.so", SOURCE + "\nchar room[5 << 20] = {1};")
    data = path.read_bytes()
    header = elf.read_header(data)
    assert header is not None
    for step in (1 << 20, 4099):
        stream = ChunkStream((data[at : at + step] for at in range(0, len(data), step)), len(data))
        for start, stop in wanted_ranges(header, data[:4096]):
            stream.remember(start, stop)
        stream.skip(len(data))

        def read(at: int, size: int, kept: ChunkStream = stream) -> bytes | None:
            return kept.recall(at, at + size)

        assert read_linkage(header, data[:4096], read) == linked(path)


def test_ranges_as_patchelf_leaves_torch() -> None:
    """The numbers are those of libtorch_cuda of torch 2.14.1: names and hash behind everything else."""
    loads = [
        (1, 0, 0x400000, 0x6A57B0),
        (1, 0x6B0000, 0xAB0000, 0x302F060),
        (1, 0x36E0000, 0x3AE0000, 0x13A337CC),
        (1, 0x17113CC0, 0x17523CC0, 0x9BDF8),
        (2, 0x17160F88, 0x17570F88, 0x360),
        (1, 0x1B340000, 0x183A0000, 0x46B768),
    ]
    head = segments(*loads)
    header = elf.read_header(head)
    assert header is not None
    assert wanted_ranges(header, head) == (
        (0, 0x6A57B0),
        (0x17160F88, 0x171612E8),
        (0x1B340000, 0x1B7AB768),
    )


def test_ranges_are_bounded_and_joined() -> None:
    head = segments((1, 0, 0, 1 << 40), (2, 1 << 20, 1 << 20, 512), (1, 1 << 41, 1 << 41, 1 << 40))
    header = elf.read_header(head)
    assert header is not None
    assert wanted_ranges(header, head) == ((0, FRONT_AT_MOST),)


def test_bytes_that_cannot_be_had_are_a_reason(tmp_path: Path) -> None:
    data = compiled(tmp_path, "libx.so", "int x() { return 1; }").read_bytes()
    header = elf.read_header(data)
    assert header is not None
    assert "dynamic segment" in str(read_linkage(header, data, lambda _at, _size: None))
    assert "dynamic segment" in str(read_linkage(header, data, lambda at, size: data[at : at + size - 1]))


SYMBOL = struct.Struct("<IBBHQQ")


@pytest.mark.parametrize(
    ("entries", "tables", "reason"),
    [
        ([(STRTAB, TABLES), (STRSZ, 1 << 40)], b"", "its names take"),
        ([(STRTAB, 1 << 50), (STRSZ, 8)], b"", "no loaded segment"),
        ([(STRTAB, TABLES), (STRSZ, 1 << 20)], b"", "beyond their segment"),
        ([(STRTAB, TABLES), (STRSZ, 3), (NEEDED, 1)], b"abc", "has no end"),
        ([(NEEDED, 0)] * 5000, b"", "5,000 libraries"),
        ([(SYMTAB, TABLES)], b"", "nothing says how many"),
        ([(SYMTAB, TABLES), (HASH, TABLES)], b"\0\0\0\0\xff\xff\xff\xff", "dynamic symbols"),
        ([(SYMTAB, TABLES), (GNU_HASH, TABLES)], struct.pack("<IIII", 1 << 31, 1, 1, 0), "buckets"),
        (
            [(SYMTAB, TABLES), (GNU_HASH, TABLES)],
            struct.pack("<IIIIQI", 1, 1, 1, 0, 0, 1 << 30),
            "no loaded segment",
        ),
        ([(VERNEED, 1 << 50), (VERNEEDNUM, 1 << 60)], b"", "no loaded segment"),
    ],
)
def test_hostile_tables_are_reasons(entries: list[tuple[int, int]], tables: bytes, reason: str) -> None:
    found = linkage_of(dynamic_elf(entries, tables))
    assert isinstance(found, str)
    assert reason in found


def test_symbols_that_share_a_long_name_cost_neither_time_nor_memory() -> None:
    names = b"\0" + b"x" * 60000 + b"\0"
    symbols = b"".join(SYMBOL.pack(1 + at % 50000, 0x12, 0, 0, 0, 0) for at in range(100_000))
    table = struct.pack("<II", 1, 100_000) + symbols + names
    entries = [(HASH, TABLES), (SYMTAB, TABLES + 8), (STRTAB, TABLES + 8 + len(symbols)), (STRSZ, len(names))]
    data = dynamic_elf(entries, table)
    tracemalloc.start()
    began = time.process_time()
    found = linkage_of(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "names of more than" in str(found)
    assert peak < 100 << 20
    assert time.process_time() - began < 5


def symbol_table(*symbols: tuple[str, int, int, int]) -> tuple[bytes, bytes]:
    """Return symbols and their names; each symbol is its name, info, other, section."""
    names, rows = b"\0", [SYMBOL.pack(0, 0, 0, 0, 0, 0)]
    for name, info, other, section in symbols:
        rows.append(SYMBOL.pack(len(names), info, other, section, 0, 0))
        names += name.encode() + b"\0"
    return b"".join(rows), names


def test_kinds_of_symbols() -> None:
    rows, names = symbol_table(
        ("local", 0x02, 0, 1),
        ("hidden", 0x12, 2, 1),
        ("internal", 0x12, 1, 1),
        ("protected", 0x12, 3, 1),
        ("unique", 0xA1, 0, 1),
        ("soft", 0x22, 0, 1),
        ("absolute", 0x10, 0, 0xFFF1),
        ("lost", 0x12, 0, 0),
        ("optional", 0x22, 0, 0),
        ("lost", 0x22, 0, 0),
    )
    table = struct.pack("<II", 1, 11) + rows + names
    entries = [(HASH, TABLES), (SYMTAB, TABLES + 8), (STRTAB, TABLES + 8 + len(rows)), (STRSZ, len(names))]
    found = linkage_of(dynamic_elf(entries, table))
    assert isinstance(found, Linkage)
    assert found.defined == {"protected", "unique", "soft", "absolute"}
    assert found.undefined == {"lost"}
    assert found.weak == {"optional"}


def test_without_a_hash_table_symbols_end_where_they_make_no_sense() -> None:
    """Patchelf leaves a hole of X where the names were."""
    rows, names = symbol_table(("lost", 0x12, 0, 0))
    beyond = b"X" * 24 + SYMBOL.pack(1, 0x12, 0, 1, 0, 0)
    place = TABLES + len(rows) + len(beyond)
    entries = [(SYMTAB, TABLES), (STRTAB, place), (STRSZ, len(names))]
    found = linkage_of(dynamic_elf(entries, rows + beyond + names))
    assert isinstance(found, Linkage)
    assert found.undefined == {"lost"}
    assert not found.defined


def test_versions_that_are_optional_do_not_count() -> None:
    names = b"\0GLIBC_2.34\0GLIBC_2.17\0libc.so.6\0"
    table = struct.pack("<HHIII", 1, 2, 23, 16, 0)
    table += struct.pack("<IHHII", 0, 2, 2, 1, 16) + struct.pack("<IHHII", 0, 0, 3, 12, 0)
    place = TABLES + len(table)
    entries = [(STRTAB, place), (STRSZ, len(names)), (VERNEED, TABLES), (VERNEEDNUM, 1)]
    found = linkage_of(dynamic_elf(entries, table + names))
    assert isinstance(found, Linkage)
    assert found.versions == {"GLIBC_2.17"}


def test_versions_that_go_in_circles_end() -> None:
    table = struct.pack("<HHIII", 1, 0xFFFF, 0, 16, 1) + struct.pack("<IHHII", 0, 0, 0, 0, 0)
    data = dynamic_elf([(VERNEED, TABLES), (VERNEEDNUM, 1 << 60)], table)
    assert isinstance(linkage_of(data), str)
    zero = struct.pack("<HHIII", 1, 0xFFFF, 0, 0, 0)
    entries = [(STRTAB, TABLES + 16), (STRSZ, 4), (VERNEED, TABLES), (VERNEEDNUM, 1 << 60)]
    found = linkage_of(dynamic_elf(entries, zero + b"abc\0"))
    assert isinstance(found, str | Linkage)


TINY = (FOLDER / "array.so").read_bytes()
TINY_DYNAMIC = next(
    (at, at + 0x200) for at in range(0, len(TINY), 8) if TINY[at : at + 8] == b"\1\0\0\0\0\0\0\0"
)
EXTREMES = st.sampled_from(
    [0, 1, 7, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(32, 0x600) | st.integers(*TINY_DYNAMIC), EXTREMES | st.integers(0, 1 << 20)),
        min_size=1,
        max_size=8,
    )
)
def test_damaged_libraries_never_break_the_reader(changes: list[tuple[int, int]]) -> None:
    data = bytearray(TINY)
    for at, value in changes:
        data[at : at + 8] = struct.pack("<Q", value)
    header = elf.read_header(bytes(data))
    if header is None:
        return
    found = linkage_of(bytes(data))
    assert found is None or isinstance(found, str | Linkage)
    for start, stop in wanted_ranges(header, bytes(data)):
        assert 0 <= start < stop


@settings(max_examples=100, deadline=None)
@given(st.integers(64, len(TINY)))
def test_cut_off_libraries_never_break_the_reader(size: int) -> None:
    assert linkage_of(TINY[:size]) is None or isinstance(linkage_of(TINY[:size]), str | Linkage)


def test_torch_sized_tables_take_no_second() -> None:
    """As many symbols as libtorch_cpu has, and names as long."""
    names = b"\0".join(b"_ZN2at6native%060dE" % number for number in range(48_000))
    names = b"\0" + names + b"\0"
    offset, rows = 1, []
    for _ in range(48_000):
        rows.append(SYMBOL.pack(offset, 0x12, 0, 1, 0, 0))
        offset += 75
    symbols = SYMBOL.pack(0, 0, 0, 0, 0, 0) + b"".join(rows)
    table = struct.pack("<II", 1, 48_001) + symbols + names
    entries = [(HASH, TABLES), (SYMTAB, TABLES + 8), (STRTAB, TABLES + 8 + len(symbols)), (STRSZ, len(names))]
    data = dynamic_elf(entries, table)
    began = time.process_time()
    found = linkage_of(data)
    assert time.process_time() - began < 1
    assert isinstance(found, Linkage)
    assert len(found.defined) == 48_000
    assert sys.getsizeof(found.defined) < 8 << 20
