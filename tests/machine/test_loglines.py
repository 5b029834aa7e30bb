"""Which line of a log says what is really wrong: read in little memory and time, whatever the bytes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from orchestrator.machine.diagnose import diagnose_log

if TYPE_CHECKING:
    from pathlib import Path

# A line that is an error by itself.
ERRORS = [
    "csrc/norm.cpp:41:9: error: 'at' is not a member of 'torch'",
    "/w/src/a b.cpp:1:10: fatal error: cuda_runtime.h: No such file or directory",
    'csrc/norm.cu(88): error: identifier "__nv_fp4" is undefined',
    'csrc/norm.cu(88): error #20: identifier "__nv_fp4" is undefined',
    'csrc/x.cu(3): catastrophic error: cannot open source file "cute/tensor.hpp"',
    'csrc/norm.cuh(12,4): error : expected a ";"',
    "nvcc fatal   : Unsupported gpu architecture 'compute_121a'",
    "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
    "nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)",
    "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
    "ptxas /tmp/tmpxft_01.ptx, line 88; error   : Instruction 'mma' not supported on .target 'sm_121'",
    "nvlink error   : Undefined reference to '_Z3foov' in 'a.o' (target: sm_121a)",
    "/usr/bin/ld: cannot find -lcudart: No such file or directory",
    "/usr/bin/ld: b.o: undefined reference to symbol 'cuInit'",
    "x86_64-linux-gnu-ld: final link failed: No space left on device",
    "b.cpp:(.text+0x1f): undefined reference to `c10::Error::Error(std::string)'",
    "gcc: error: unrecognized command-line option '-std=c++26'",
    "/usr/bin/aarch64-linux-gnu-g++-13: fatal error: Killed signal terminated program cc1plus",
    "cc1plus: error: bad value 'native' for '-march=' switch",
    "CMake Error at CMakeLists.txt:12 (find_package):",
    "CMake Error: Failed to clone repository: 'somewhere'",
    "ninja: error: 'src/a.cu', needed by 'a.o', missing and no known rule to make it",
    "make[2]: *** No rule to make target 'b.c', needed by 'b.o'.  Stop.",
    "Makefile:7: *** missing separator.  Stop.",
    "/bin/sh: 1: cmake: not found",
    "bash: line 3: protoc: command not found",
    "Killed",
    "Segmentation fault (core dumped)",
    "cp: error writing 'x': No space left on device",
    "OSError: [Errno 28] No space left on device: '/tmp/x'",
    "ModuleNotFoundError: No module named 'torch'",
    "setuptools.errors.OptionError: bad option",
    "AssertionError",
    "KeyboardInterrupt",
    "error: patch failed: a/b.py:871",
    "fatal: reference is not a tree: 0123",
    "error[E0425]: cannot find value `x` in this scope",
    "thread 'main' panicked at src/main.rs:2:5:",
    "ERROR: Could not find a version that satisfies the requirement ninja",
    'auditwheel: error: cannot repair "x.whl"',
    "\x1b[1m\x1b[31mcsrc/a.cpp:1:2: error: \x1b[0mcoloured",
]

# A line that only mentions one.
HARMLESS = [
    "g++ -Werror=return-type -Wno-error -c error.cpp -o build/error.o",
    "[12/90] Building CXX object src/error.cpp.o",
    "-- Performing Test HAS_WERROR - Failed",
    "csrc/a.cpp:1:2: warning: this is an error in C++26 [-Wdeprecated]",
    'csrc/a.cu(12): warning #177-D: variable "error" was declared but never referenced',
    "0 errors, 3 warnings",
    "copying pkg/exceptions.py -> build/lib/pkg",
    "Error handling is on",
    "    raise ValueError('no')",
    "  warnings.warn('an error: nothing')",
    "ptxas info    : 0 bytes gmem, error: none",
    "writing build/lib/fatal_error.py",
    "-- Looking for pthread.h - not found",
    "[sparkbuild] env MESSAGE='a.c:1:1: error: x'",
    "#define ERROR 1",
    "creating build/Killed",
    "In file included from error.h:3,",
]

# What comes of something else: taken only when nothing better is there.
ECHOES = [
    "FAILED: [code=1] build/a.o",
    "ninja: build stopped: subcommand failed.",
    "make: *** [Makefile:5: all] Error 1",
    "make[1]: *** Waiting for unfinished jobs....",
    "error: command '/usr/bin/ninja' failed with exit code 1",
    "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
    "RuntimeError: Error compiling objects for extension",
    "collect2: error: ld returned 1 exit status",
    "ptxas fatal   : Ptx assembly aborted due to errors",
    "ERROR: Failed building wheel for thing",
    "error: could not compile `thing` (lib) due to 2 previous errors",
]


def first_error(log: Path, start: int = 0) -> tuple[int | None, str] | None:
    """Return number and text of the line that is the evidence of the first cause."""
    faults = diagnose_log(log, start=start).faults
    return (faults[0].line, faults[0].evidence) if faults else None


def last_line(log: Path, start: int = 0) -> str | None:
    return diagnose_log(log, start=start).last_line


def write(folder: Path, *lines: str) -> Path:
    log = folder / "log"
    log.write_text("\n".join(lines) + "\n")
    return log


@pytest.mark.parametrize("line", ERRORS)
def test_an_error_is_found(tmp_path: Path, line: str) -> None:
    found = first_error(write(tmp_path, "all is well", *HARMLESS, line, "a.c:9:9: error: later"))
    assert found == (len(HARMLESS) + 2, line.replace("\x1b[1m\x1b[31m", "").replace("\x1b[0m", ""))


@pytest.mark.parametrize("line", HARMLESS)
def test_a_mention_is_none(tmp_path: Path, line: str) -> None:
    assert first_error(write(tmp_path, line)) is None


@pytest.mark.parametrize("line", ECHOES)
def test_an_echo_yields_to_the_cause(tmp_path: Path, line: str) -> None:
    assert first_error(write(tmp_path, "x", line)) == (2, line)
    cause = "a.cu(3): error: too bad"
    assert first_error(write(tmp_path, line, cause)) == (2, cause)
    assert first_error(write(tmp_path, cause, line)) == (1, cause)


def test_a_whole_failing_extension_build(tmp_path: Path) -> None:
    log = write(
        tmp_path,
        "building 'thing' extension",
        "[1/2] nvcc -Werror -c a.cu -o a.o",
        "FAILED: [code=2] a.o",
        "nvcc -Werror -c a.cu -o a.o",
        'a.cu(7): error: namespace "std" has no member "span"',
        '1 error detected in the compilation of "a.cu".',
        "ninja: build stopped: subcommand failed.",
        "Traceback (most recent call last):",
        '  File "x.py", line 3, in run',
        "    subprocess.run(command, check=True)",
        "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1.",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "y.py", line 3, in <module>',
        "RuntimeError: Error compiling objects for extension",
    )
    assert first_error(log) == (5, 'a.cu(7): error: namespace "std" has no member "span"')


def test_an_exception_of_any_name_ends_a_traceback(tmp_path: Path) -> None:
    log = write(
        tmp_path,
        "Traceback (most recent call last):",
        '  File "error.py", line 3, in <module>',
        "    raise Error('KeyError: inside')",
        "pkg.core.UnknownGpu: nothing named sm_121",
    )
    assert first_error(log) == (4, "pkg.core.UnknownGpu: nothing named sm_121")


def test_killed_is_better_than_failed(tmp_path: Path) -> None:
    log = write(
        tmp_path,
        "FAILED: [code=137] b.o",
        "nvcc -c b.cu",
        "Killed",
        "ninja: build stopped: subcommand failed.",
    )
    assert first_error(log) == (3, "Killed")


def test_lines_before_the_start_do_not_count(tmp_path: Path) -> None:
    log = write(tmp_path, "a.c:1:1: error: old", "fine", "b.c:1:1: error: new")
    start = log.read_text().index("fine")
    assert first_error(log, start=start) == (3, "b.c:1:1: error: new")
    assert first_error(log, start=log.stat().st_size) is None


def test_nothing_in_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    assert first_error(log) is None


def test_a_last_line_without_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"fine\r\na.c:1:1: error: cut\r")
    assert first_error(log) == (2, "a.c:1:1: error: cut")


def test_bytes_of_any_kind(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(bytes(range(256)) * 50 + b"\n\xff\xfea.c:1:1: error: \xff odd\n")
    found = first_error(log)
    assert found is not None
    assert "error: \ufffd odd" in found[1]


def test_long_lines_are_cut_and_counted_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 3_000_000 + b" error: no\n" + b"y\n" * 700_000 + b"a.c:1:1: error: " + b"z" * 9000)
    found = first_error(log)
    assert found is not None
    assert found[0] == 700_002
    assert len(found[1]) == 300


NVCC = b"nvcc fatal   : Unsupported gpu architecture 'compute_121a'"


@pytest.mark.parametrize("length", [290, 3800, 4090, 4500, 5000, 9000, 3_000_000])
def test_the_end_of_a_long_line_is_searched_and_shown(tmp_path: Path, length: int) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"fine\n" + b"x" * length + NVCC + b"\nfine\n")
    (fault,) = diagnose_log(log).faults
    assert (fault.fault_class, fault.line) == ("toolchain-too-old", 2)
    assert "compute_121a" in fault.evidence
    assert len(fault.evidence) <= 300


def test_a_carriage_return_ends_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    steps = b"".join(b"[%d/1000] Building a.o\r" % n for n in range(1000))
    log.write_bytes(b"fine\r\n" + steps + b"ninja: error: no such file\nKilled\r\r\nfine\r")
    found = diagnose_log(log).faults
    assert [(fault.evidence, fault.line) for fault in found] == [("Killed", 3)]
    log.write_bytes(b"fine\r\n" + steps + b"ninja: error: no such file\n")
    assert first_error(log) == (2, "ninja: error: no such file")
    assert last_line(log) == "ninja: error: no such file"
    log.write_bytes(steps * 100 + b"ninja: error: no such file\rmore\nKeyError\n")
    assert first_error(log) == (1, "ninja: error: no such file")


def test_carriage_returns_do_not_count_as_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b"a\rb\nTraceback (most recent call last):\r\n  x\r\n\r\nOdd: \xc3\xbc\r\na.c:1:1: error: y\n"
    )
    assert [(fault.evidence, fault.line) for fault in diagnose_log(log).faults] == [
        ("Odd: \u00fc", 5),
        ("a.c:1:1: error: y", 6),
    ]


def test_the_start_holds_across_blocks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = b"a.c:1:1: error: old\n"
    log.write_bytes(line * 200_000 + b"b.c:1:1: error: new\n")
    assert first_error(log, start=200_000 * len(line)) == (200_001, "b.c:1:1: error: new")
    assert first_error(log, start=150_000 * len(line) - 1) == (150_001, line.decode().strip())


def test_a_big_log_is_read_in_little_memory_and_time(tmp_path: Path) -> None:
    import tracemalloc

    log = tmp_path / "log"
    line = b"[1/9] /usr/local/cuda/bin/nvcc -Werror all-warnings -gencode arch=compute_121a -c error.cu\n"
    with log.open("wb") as file:
        for _ in range(20):
            file.write(line * 10_000)
    begin = time.process_time()
    assert first_error(log) is None
    spent = time.process_time() - begin
    assert spent < 5.0  # 0.2 s for these 20 MB; a search at every position took minutes
    tracemalloc.start()
    try:
        log.write_bytes(log.read_bytes()[: 3 << 20])
        tracemalloc.reset_peak()
        first_error(log)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_the_last_line_when_nothing_speaks_of_an_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"[sparkbuild] head\nfirst\n\x1b[31mall is\x07 lost\x1b[0m\n\n[sparkbuild] foot\n")
    assert last_line(log) == "all is  lost"
    assert last_line(log, start=log.stat().st_size) is None
    log.write_bytes(b"x" * 200_000 + b"\nend")
    assert last_line(log) == "end"
