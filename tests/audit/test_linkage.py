"""Findings about what libraries of a wheel leave to others."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from solibs import compiled, linkage, linked

from orchestrator.audit.dynamic import Linkage
from orchestrator.audit.linkage import check_linkage
from orchestrator.audit.names import demangled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

USUAL = ("libc10.so", "libtorch_cpu.so", "libcudart.so.13", "libcuda.so.1", "libstdc++.so.6", "libc.so.6")
TORCH = frozenset(("_ZN3c104warnEi", "_ZN2at5emptyEi", "aoti_torch_new", "_ZN4gloo4sendEv"))
MOE = "_Z20cutlass_moe_mm_sm100RN2at6TensorERKS0_S3_S3_S3_S3_S3_S3_S3_S3_S3_bb"
"""The symbol of vllm-project/vllm#29030."""
LOGGER = "_ZN3c1013MessageLoggerC1EPKciib"


def codes(
    files: Mapping[str, Linkage], *, torch: frozenset[str] | None = TORCH, cuda: int | None = None
) -> list[tuple[str, str, str]]:
    found = check_linkage(files, torch=torch, cuda_major=cuda)
    return [(path, finding.level, finding.code) for path, told in found.items() for finding in told]


def one(
    files: Mapping[str, Linkage], *, torch: frozenset[str] | None = TORCH, cuda: int | None = None
) -> str:
    """Return the text of the only finding."""
    (found,) = check_linkage(files, torch=torch, cuda_major=cuda).values()
    (finding,) = found
    return finding.text


def test_a_wheel_built_against_another_torch() -> None:
    files = {"p/_C.so": linkage(needed=USUAL, undefined=[LOGGER, "_ZN2at5emptyEi", "PyList_New"])}
    assert codes(files) == [("p/_C.so", "error", "undefined-torch-symbol")]
    assert "c10::MessageLogger::MessageLogger(char const*, int, int, bool)" in one(files)
    assert codes(files, torch=TORCH | {LOGGER}) == []
    assert codes(files, torch=None) == []


@pytest.mark.parametrize(
    "name",
    [
        "_ZNK3c1010TensorImpl4sizeEv",
        "_ZTIN3c105ErrorE",
        "_ZTVN5torch8autograd4NodeE",
        "_ZTSN6caffe28TypeMetaE",
        "_ZGVN2at4oncE",
        "_ZThn16_N5torch3jit5BlockD0Ev",
        "_ZN4c10d5StoreD2Ev",
        "_ZNKR3c107IntList4backEv",
        "aoti_torch_gone",
        "torch_call_dispatcher_v9",
    ],
)
def test_forms_of_torch_names(name: str) -> None:
    assert codes({"a.so": linkage(needed=USUAL, undefined=[name])}) == [
        ("a.so", "error", "undefined-torch-symbol")
    ]
    assert codes({"a.so": linkage(needed=USUAL, undefined=[name], defined=[name])}) == []


def test_many_missing_names_are_counted() -> None:
    text = one({"a.so": linkage(needed=USUAL, undefined=[f"_ZN3c10{at}fooEv" for at in range(1, 8)])})
    assert "and 4 more" in text


def test_a_library_nobody_knows_makes_torch_symbols_a_warning_and_own_ones_unknown() -> None:
    files = {"a.so": linkage(needed=[*USUAL, "libtorchish.so.1", "libmagic.so"], undefined=[LOGGER, MOE])}
    assert codes(files) == [("a.so", "warning", "undefined-torch-symbol")]
    assert "libmagic.so" in one(files)


@pytest.mark.parametrize("library", ["libtorchaudio.so", "libcudf.so", "libnvinfer.so.10", "libc++.so.1"])
def test_libraries_that_sound_known_may_define_anything(library: str) -> None:
    assert codes({"a.so": linkage(needed=[*USUAL, library], undefined=[MOE])}) == []


@pytest.mark.parametrize(
    "library",
    ["ld-linux-aarch64.so.1", "libpython3.12.so.1.0", "libcudart-9335f6a2.so.13", "libtorch_python.so"],
)
def test_libraries_that_cannot_define_own_names(library: str) -> None:
    assert codes({"a.so": linkage(needed=[library], undefined=[MOE])}) == [("a.so", "error", "own-symbol")]


def test_an_own_function_left_out() -> None:
    files = {"vllm/_C.so": linkage(needed=USUAL, undefined=[MOE, "_ZN2at5emptyEi"])}
    assert codes(files) == [("vllm/_C.so", "error", "own-symbol")]
    assert "cutlass_moe_mm_sm100(at::Tensor&, at::Tensor const&" in one(files)
    assert codes(files, torch=None) == [("vllm/_C.so", "error", "own-symbol")]
    assert codes({**files, "vllm/_D.so": linkage(needed=USUAL, defined=[MOE])}) == []


def test_without_torch_names_in_namespaces_are_not_judged() -> None:
    files = {
        "a.so": linkage(needed=USUAL, undefined=["_ZN4gloo4sendEv", "_Z16THPVariable_WrapN2at10TensorBaseE"])
    }
    assert codes(files, torch=None) == []
    assert codes(files, torch=frozenset()) == [("a.so", "error", "own-symbol")]
    preloaded = {"a.so": linkage(needed=["libc.so.6"], undefined=["_ZN4gloo4sendEv", "_ZN2at5emptyEi"])}
    assert codes(preloaded, torch=None) == []
    alone = {"a.so": linkage(needed=["libc.so.6"], undefined=["_ZN4gloo4sendEv"])}
    assert codes(alone, torch=None) == [("a.so", "error", "own-symbol")]


def test_what_others_may_define_is_no_finding() -> None:
    names = (
        *("_Znwm", "_ZdlPvm", "_ZnamRKSt9nothrow_t", "_ZTIi", "_ZTIPKc", "_ZTIDn", "_ZTISt9exception"),
        *("_ZNSt6thread4joinEv", "_ZNKSs4sizeEv", "_ZSt4cout", "_ZTVN10__cxxabiv117__class_type_infoE"),
        *("_ZN9__gnu_cxx3fooEv", "_ZGVNSt3oncE", "_ZNKSt5ctypeIcE13_M_widen_initEv"),
        *("PyLong_FromLong", "sqrt", "cudaMalloc", "cuLaunchKernel", "cutlass_in_c", "__cxa_throw"),
    )
    assert codes({"a.so": linkage(needed=USUAL, undefined=names)}) == []
    weak = Linkage(62, USUAL, None, (), frozenset(), frozenset((MOE, LOGGER)), frozenset())
    assert codes({"a.so": weak}) == []
    assert codes({"a.so": linkage(needed=(), undefined=[MOE])}) == []


def test_a_missing_device_link() -> None:
    name = "__cudaRegisterLinkedBinary_c3a6c5c1_9_kernel_cu_main"
    assert "not linked" in one({"a.so": linkage(needed=USUAL, undefined=[name])})


def test_libraries_behind_bundled_ones_count() -> None:
    """What is loaded with a file is searched too, named or not."""
    top = linkage(needed=["libmid.so", "libc.so.6"], undefined=["_Z6lostinv"])
    middle = linkage(needed=["libforeign.so.3"])
    assert codes({"p/top.so": top, "p/libmid.so": middle}) == []
    assert codes({"p/top.so": top, "p/libmid.so": linkage(needed=["top.so"])}) == [
        ("p/top.so", "error", "own-symbol")
    ]


def test_two_cuda_majors_in_one_wheel() -> None:
    thirteen, twelve = linkage(needed=["libcudart.so.13"]), linkage(needed=["libnvrtc.so.12"])
    files = {"a.so": thirteen, "b.so": thirteen, "c.so": twelve}
    assert codes(files) == [("c.so", "error", "cuda-major-mix")]
    assert one(files) == "it needs libnvrtc.so.12, but a.so needs CUDA 13"
    assert codes(files, cuda=12) == [(path, "error", "cuda-major-mix") for path in ("a.so", "b.so")]
    both = {"a.so": linkage(needed=["libcudart.so.12", "libcublas.so.13"])}
    assert one(both) == "it needs libraries of several CUDA majors: libcublas.so.13, libcudart.so.12"


def test_numbers_that_are_no_cuda_major() -> None:
    names = ("libcufft.so.12", "libcurand.so.10", "libcusparse.so.12", "libcusolver.so.12", "libcudnn.so.9")
    files = {"a.so": linkage(needed=[*names, "libcudart.so.13", "libcublas.so.13", "libcuda.so.1"])}
    assert codes(files, cuda=13) == []


def test_old_and_grafted_names() -> None:
    files = {"a.so": linkage(needed=["libcudart.so.11.0"]), "b.so": linkage(needed=["libcudart.so.11.0"])}
    assert codes(files) == []
    assert codes(files, cuda=13) == [(path, "error", "cuda-major-mix") for path in ("a.so", "b.so")]
    assert codes({"a.so": linkage(needed=["libcudart-9335f6a2.so.12.1.105"])}, cuda=13) != []


def test_variants_that_name_their_cuda_are_meant() -> None:
    """As in bitsandbytes, which ships one library for each CUDA, and loads the right one."""
    needs = {118: "libcudart.so.11.0", 124: "libcudart.so.12", 130: "libcudart.so.13"}
    files = {f"b/libb_cuda{at}.so": linkage(needed=[name]) for at, name in needs.items()}
    assert codes(files) == []
    assert codes(files, cuda=13) == []
    wrong = {"b/libb_cuda130.so": linkage(needed=["libcudart.so.12"])}
    assert codes(wrong, cuda=13) == [("b/libb_cuda130.so", "error", "cuda-major-mix")]


def test_a_real_library_without_one_of_its_sources(tmp_path: Path) -> None:
    """A macro says that a file is compiled, the build leaves it out, and g++ links all the same."""
    source = "#include <string>\nint gemm_sm100(std::string const&); int gemm() { return gemm_sm100({}); }"
    lacking = linked(compiled(tmp_path, "_C.so", source))
    assert "gemm_sm100(std::" in one({"p/_C.so": lacking}, torch=None)
    kernel = "#include <string>\nint gemm_sm100(std::string const& x) { return x.size(); }"
    library = compiled(tmp_path, "libgemm.so", kernel)
    whole = linked(compiled(tmp_path, "_C.so", source, library))
    assert codes({"p/_C.so": whole, "p/libgemm.so": linked(library)}, torch=None) == []
    assert codes({"p/_C.so": whole}, torch=None) == []


def test_names_are_shown_as_they_are_when_nobody_can_tell_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycxxfilt", None)
    demangled.cache_clear()
    assert f"nothing defines {MOE}" in one({"a.so": linkage(needed=USUAL, undefined=[MOE])})
    demangled.cache_clear()


def test_the_module_asks_for_the_standard_library_only() -> None:
    code = "import sys, orchestrator.audit.linkage; print([n for n in sys.modules if 'cxxfilt' in n])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
