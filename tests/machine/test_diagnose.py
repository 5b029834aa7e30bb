"""The samples of every class, the order of causes, exit codes, and that no input takes long or breaks out."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.machine.diagnose import NO_FAULT, diagnose, diagnose_log
from orchestrator.machine.faults import CLASSES, Diagnosis
from orchestrator.machine.table import table
from orchestrator.model.arch import Device

FAULTS = Path(__file__).parents[1] / "data/faults"
SAMPLES = sorted(path.name for path in FAULTS.iterdir())
"""Files named by the class that they hold; `none` holds no fault."""


def told(*lines: str, returncode: int | None = None, device: str = "12.1") -> Diagnosis:
    text = "\n".join(lines).encode()
    return diagnose(io.BytesIO(text), returncode=returncode, device=Device.parse(device))


def classes(*lines: str, returncode: int | None = None) -> list[str]:
    return [fault.fault_class for fault in told(*lines, returncode=returncode).faults]


class TestSamples:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_a_sample_yields_its_class_alone(self, name: str) -> None:
        diagnosis = diagnose_log(FAULTS / name)
        wanted = name.partition(".")[0]
        assert [fault.fault_class for fault in diagnosis.faults] == ([] if wanted == "none" else [wanted])
        if wanted == "none":
            assert diagnosis.summary.startswith(NO_FAULT)
        for fault in diagnosis.faults:
            assert fault.advice.endswith((".", ")"))
            lines = (FAULTS / name).read_text().splitlines()
            assert fault.line is not None
            assert lines[fault.line - 1].strip() == fault.evidence

    def test_every_class_has_a_sample(self) -> None:
        assert {name.partition(".")[0] for name in SAMPLES} == {*CLASSES, "none"}

    def test_memory_and_crashes_are_tried_again_and_nothing_else(self) -> None:
        again = {name for name in SAMPLES if any(fault.retry for fault in diagnose_log(FAULTS / name).faults)}
        memory = {name for name in SAMPLES if name.startswith("oom.") and name != "oom.serving.txt"}
        assert again == memory | {name for name in SAMPLES if name.startswith("compiler-crash.")}

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("oom.ninja.log", ["gemm.cu.o", "memory_per_unit"]),
            ("oom.ptxas.log", ["(ptxas)"]),
            ("compiler-crash.nvcc.log", ["flash_bwd_hdim256", "12.8"]),
            ("wrong-suffix.fp4.log", ["12.1a or 12.0f", "hardware is fine"]),
            ("wrong-suffix.other-chip.log", ["another chip"]),
            (
                "toolchain-too-old.triton.log",
                ["triton/backends/nvidia/bin/ptxas", "TRITON_PTXAS_PATH", "13.0"],
            ),
            ("toolchain-too-old.nvcc.log", ["compute_120a", "--cuda pip"]),
            ("missing-header.python.log", ["Python.h", "python3-dev"]),
            ("missing-header.cccl.log", ["include/cccl"]),
            ("patch-conflict.test-hunk.log", ["Only a test hunk", "still usable", "tests/test_norm.py"]),
            ("patch-conflict.hunk.log", ["csrc/norm.cu)"]),
            ("network.offline.log", ["git.example", "sparkbuild fetch all"]),
            ("bad-pin.version.log", ["thing==9.9"]),
            ("disk-full.tmp.log", ["file system of /tmp/build-env-1 ", "TMPDIR"]),
            ("version-from-git.scm.log", ["SETUPTOOLS_SCM_PRETEND_VERSION"]),
            ("torch-replaced.cpu.txt", ["now torch 2.9.1+cpu"]),
            ("torch-abi.import.txt", ["c10::Error::Error("]),
            ("torch-abi.handle.txt", ["at::cuda::getCurrentCUDABlasHandle()"]),
            ("own-symbol.import.txt", ["grouped_mm_sm100(at::Tensor&, bool)", "feature macro"]),
            ("cuda-major-mix.library.txt", ["libcudart.so.12"]),
            ("arch-corruption.configure.log", ["compute_20", "12.1(2.0)", "--arch 12.1a"]),
            ("arch-dropped.configure.log", ["scaled_mm_c3x_120, NVFP4"]),
            ("ptx-newer-than-driver.serve.txt", ["_thing_fa2_C holds only PTX"]),
            ("runtime-guard.range.txt", ["pytorch/pytorch#176243"]),
            ("wrong-arch-image.cutlass.txt", ["sm_120a"]),
        ],
    )
    def test_advice_names_what_the_log_names(self, name: str, words: list[str]) -> None:
        advice = diagnose_log(FAULTS / name).faults[0].advice
        assert [word for word in words if word not in advice] == []

    def test_kernels_for_other_chips_are_not_missed(self) -> None:
        advice = diagnose_log(FAULTS / "arch-dropped.configure.log").faults[0].advice
        assert "MLA" not in advice
        log = (FAULTS / "arch-dropped.configure.log").read_text()
        assert "MLA" in told(log, device="10.0").faults[0].advice

    def test_the_same_line_a_hundred_times_is_one_fault(self) -> None:
        (fault,) = diagnose_log(FAULTS / "wrong-suffix.fp4.log").faults
        assert (fault.count, fault.line) == (100, 2)

    def test_json(self) -> None:
        answer = json.loads(json.dumps(diagnose_log(FAULTS / "oom.ninja.log").to_json()))
        assert answer["schema"] == "sparkbuild.diagnose/1"
        (fault,) = answer["faults"]
        assert (fault["class"], fault["evidence"], fault["retry"]) == ("oom", "Killed", True)


class TestOneLine:
    """Lines that people paste alone."""

    @pytest.mark.parametrize(
        ("line", "fault", "words"),
        [
            (
                "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please",
                "ptx-newer-than-driver",
                "CUDA 12.8 and older",
            ),
            ("The NVIDIA driver on your system is too old", "ptx-newer-than-driver", "Upgrade the driver"),
            (
                "CUDA driver version is insufficient for CUDA runtime version",
                "ptx-newer-than-driver",
                "older toolkit",
            ),
            ("OSError: CUDA_HOME environment variable is not set.", "missing-header", "--cuda pip"),
            ("Could NOT find CUDAToolkit (missing: CUDA_CUDART)", "missing-header", "--cuda pip"),
            ("  No CMAKE_CUDA_COMPILER could be found.", "missing-header", "CUDA_HOME"),
            (
                "ERROR: t-1-cp312-cp312-linux_aarch64.whl is not a supported wheel on this platform.",
                "bad-pin",
                "t-1-cp312-cp312-linux_aarch64.whl is for another Python",
            ),
            ("x.whl is not a supported wheel on this platform", "bad-pin", "sparkbuild audit"),
        ],
    )
    def test_a_class_and_what_to_do(self, line: str, fault: str, words: str) -> None:
        (found,) = told(line).faults
        assert (found.fault_class, found.retry) == (fault, False)
        assert words in found.advice

    def test_a_broken_transfer_is_tried_again(self) -> None:
        lines = [
            "error: RPC failed; curl 56 Recv failure: Connection reset by peer",
            "fetch-pack: unexpected disconnect while reading sideband packet",
            "fatal: early EOF",
            "fatal: fetch-pack: invalid index-pack output",
        ]
        (fault,) = told(*lines).faults
        assert (fault.fault_class, fault.retry, fault.line) == ("network", True, 1)
        for line in lines[:1] + lines[2:3]:
            assert [(one.fault_class, one.retry) for one in told(line).faults] == [("network", True)]
        unknown = "error: RPC failed; curl 6 Could not resolve host: git.example"
        assert [(one.fault_class, one.retry) for one in told(unknown).faults] == [("network", False)]

    HEAD = "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1."
    RANGE = "Minimum and Maximum cuda capability supported by this version of PyTorch is"

    def test_torchs_warning_is_no_fault_and_says_so(self) -> None:
        for lines in (
            [f"{self.HEAD} {self.RANGE} (8.0) - (12.0)"],
            [self.HEAD, self.RANGE, "(8.0) - (12.0)"],
        ):
            diagnosis = told(*lines)
            assert diagnosis.faults == ()
            assert diagnosis.summary.startswith(f"{NO_FAULT}: torch's warning about compute capability 12.1")
            assert "sm_120 runs on 12.1 (compatible, not exact)" in diagnosis.summary
        assert "harmless" not in told(self.HEAD, self.RANGE, "(5.0) - (9.0)").summary
        assert told(self.HEAD, self.RANGE, "(8.0) - (12.0)", "Killed").summary == "oom"


class TestOrder:
    NETWORK = "fatal: unable to access 'https://git.example/a': Could not resolve host: git.example"
    PATCH = "error: patch failed: csrc/a.cu:12"

    def test_first_cause_first(self) -> None:
        assert classes(self.NETWORK, "x", self.PATCH) == ["network", "patch-conflict"]
        assert classes(self.PATCH, "x", self.NETWORK) == ["patch-conflict", "network"]

    def test_echoes_and_what_comes_after_are_left_out(self) -> None:
        log = [
            "FAILED: [code=1] a.o",
            "a.cc:1:10: fatal error: Python.h: No such file or directory",
            "ninja: build stopped: subcommand failed.",
            "Traceback (most recent call last):",
            '  File "setup.py", line 1, in <module>',
            "RuntimeError: Error compiling objects for extension",
            "ERROR: Failed building wheel for thing",
        ]
        assert classes(*log) == ["missing-header"]

    def test_a_message_that_begins_with_an_unknown_error_is_one_fault(self) -> None:
        head = "CMake Error at cmake/get.cmake:9 (message):"
        assert classes(head, "  Each download failed!", "  error: Could not resolve host: a.example") == [
            "network"
        ]
        assert classes(head, *[""] * 20, self.NETWORK) == ["unknown", "network"]

    def test_a_compilers_own_message_is_a_cause_of_its_own(self) -> None:
        message = "a.cu(3): error: expected a ;"
        assert classes("Killed", message) == ["oom", "unknown"]
        assert classes(message, "Killed") == ["unknown", "oom"]
        assert classes("x.o: No space left on device", message) == ["disk-full"]

    def test_a_kernel_left_out_comes_after_what_stops_but_before_what_it_explains(self) -> None:
        dropped = "-- Not building NVFP4 as no compatible archs were found."
        assert classes(dropped, "Killed") == ["oom", "arch-dropped"]
        symbol = "ImportError: /v/_C.so: undefined symbol: _Z9nvfp4_mm1i"
        assert classes(dropped, symbol) == ["arch-dropped", "own-symbol"]

    def test_a_corrupt_arch_leads(self) -> None:
        log = [
            "--  12.1(2.0)",
            "nvcc fatal   : Unsupported gpu architecture 'compute_20'",
            "ninja: build stopped",
        ]
        assert classes(*log) == ["arch-corruption"]

    def test_a_command_that_ended_well_has_only_silent_faults(self) -> None:
        foot = "[sparkbuild] exit 0, wall 1.00 s, cpu 1.00 s, peak 1 MiB"
        assert classes("a.c:1:1: error: only a probe", foot) == []
        assert classes("--  12.1(2.0)", "a.c:1:1: error: only a probe", foot) == ["arch-corruption"]
        assert classes("a.c:1:1: error: only a probe", foot, "Killed") == ["oom"]

    def test_code_that_is_only_quoted_is_no_fault(self) -> None:
        frames = ["Traceback (most recent call last):", '  File "a.py", line 1, in f']
        assert classes(*frames, "    raise OSError('No space left on device')", "KeyError: 'x'") == [
            "unknown"
        ]
        assert classes('    3 | #error "No space left on device"') == []

    def test_a_traceback_may_be_indented_as_pip_does(self) -> None:
        log = [
            "      Traceback (most recent call last):",
            '        File "a.py", line 1',
            "      thing.Odd: no such gpu",
        ]
        (fault,) = told(*log).faults
        assert (fault.evidence, fault.line) == ("thing.Odd: no such gpu", 3)

    def test_prefixes_of_docker_and_servers(self) -> None:
        assert told("#12 34.5 a.c:1:2: error: x").faults[0].evidence == "a.c:1:2: error: x"
        head = "(EngineCore pid=12) ERROR 12-01 10:00:00 [core.py:9] "
        line = f"{head}RuntimeError: CUDA error: no kernel image is available"
        assert classes(line) == ["wrong-arch-image"]


class TestExitCodes:
    @pytest.mark.parametrize("code", [137, -9, 9, 247, 143])
    def test_a_kill_without_words_is_want_of_memory(self, code: int) -> None:
        (fault,) = told("[1/2] nvcc -c a.cu", returncode=code).faults
        assert (fault.fault_class, fault.retry, fault.line) == ("oom", True, None)

    @pytest.mark.parametrize("code", [139, -11, 134, -6])
    def test_a_crash_without_words(self, code: int) -> None:
        assert classes("[1/2] nvcc", returncode=code) == ["compiler-crash"]

    def test_others(self) -> None:
        assert classes("quiet", returncode=124) == ["timeout"]
        (fault,) = told("quiet", "and this was all", returncode=1).faults
        assert (fault.fault_class, fault.evidence, fault.line) == ("unknown", "and this was all", None)
        assert told(returncode=1).faults[0].evidence == "exit code 1"
        assert classes("a.c:1:1: error: only a probe", returncode=0) == []

    def test_words_before_codes(self) -> None:
        assert classes("x: No space left on device", returncode=137) == ["disk-full", "oom"]
        assert classes("KeyError: 'x'", returncode=-9) == ["oom", "unknown"]
        assert classes("KeyError: 'x'", returncode=143) == ["unknown"]
        assert classes("Killed", returncode=137) == ["oom"]

    def test_the_foot_of_a_log_tells_it_too(self) -> None:
        assert classes("quiet", "[sparkbuild] SIGKILL, wall 1.00 s, cpu 1.00 s, peak 1 MiB") == ["oom"]
        assert classes("quiet", "[sparkbuild] stopped after 5 s") == ["timeout"]

    def test_no_failure(self) -> None:
        diagnosis = told("all is well")
        assert (diagnosis.faults, diagnosis.summary) == ((), NO_FAULT)
        assert told(" \n").blank


class TestHostileInput:
    def test_every_pattern_takes_linear_time(self) -> None:
        pieces = sorted({hint for rule in table() for hint in rule.hints})
        lines = [(piece * 4096)[:4096] for piece in pieces]
        lines += [
            piece + filler * 4000
            for piece in ("/", "", "ld: ", "ptxas ", "lib")
            for filler in ("a", ":", "/", " ", "(")
        ]
        for line in lines:
            begin = time.process_time()
            for rule in table():
                rule.pattern.search(line)
            assert time.process_time() - begin < 2.0, line[:60]  # 0.01 s; a bad pattern takes minutes

    @settings(deadline=None, max_examples=60)
    @given(
        st.lists(
            st.one_of(
                st.binary(max_size=200),
                st.sampled_from([hint.encode() for rule in table() for hint in rule.hints]),
                st.sampled_from(
                    [
                        b"\n",
                        b"\r",
                        b"\x1b[31m",
                        b"Traceback (most recent call last):\n",
                        b"[sparkbuild] exit ",
                    ]
                ),
            ),
            max_size=40,
        )
    )
    def test_any_bytes_yield_an_answer_that_can_be_shown(self, parts: list[bytes]) -> None:
        diagnosis = diagnose(io.BytesIO(b"".join(parts)), returncode=1)
        assert diagnosis.faults
        for fault in diagnosis.faults:
            assert fault.evidence.isprintable()
            assert len(fault.evidence) <= 300
        json.dumps(diagnosis.to_json())
