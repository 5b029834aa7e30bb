#!/usr/bin/env bash
# Installs the three FlashInfer wheels of a dist folder, built for 12.1a, into a clean environment without an nvcc in
# reach. Fails unless FlashInfer takes norm, page and rope from them, and loads them. No GPU is needed.
# Usage: SPARKBUILD_HOME=STATE ci/load-jit-cache.sh DIST [PYTHON]. torch is taken from the layers of STATE, the state folder of
# the run that built the wheels.
set -euo pipefail
dist=$(cd "${1:?the dist folder of a stack, such as dist/quickstart}" && pwd)
home=${SPARKBUILD_HOME:?the state folder of the run that made it}
work=$(mktemp -d "${TMPDIR:-/tmp}/sparkbuild-jit-cache.XXXXXX")
trap 'rm -rf "$work"' EXIT

torch=$(find "$home"/layers/*/site -maxdepth 1 -name torch | head -n 1)
[ -n "$torch" ] || { echo "no layer of $home holds torch" >&2; exit 1; }
"${2:-python3}" -m venv "$work/env"
pip=("$work/env/bin/python" -m pip install -q --disable-pip-version-check)
# What importing FlashInfer and loading a kernel needs; its own requirements are gigabytes.
"${pip[@]}" 'apache-tvm-ffi>=0.1.11,<0.2' click einops filelock numpy nvidia-ml-py packaging requests tabulate tqdm
# The shim brings its provider.
"${pip[@]}" --index-url "file://$dist/simple" flashinfer-jit-cache
"${pip[@]}" --index-url "file://$dist/simple" --no-deps flashinfer-python
site=$("$work/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "import site; site.addsitedir('$(dirname "$torch")')" > "$site/torch.pth"

cat > "$work/check.py" <<'PY'
import shutil
from importlib.metadata import version
from pathlib import Path

import flashinfer_jit_cache

assert shutil.which("nvcc") is None, "nvcc is in reach"

from flashinfer.jit import env
from flashinfer.jit.norm import gen_norm_module
from flashinfer.jit.page import gen_page_module
from flashinfer.jit.rope import gen_rope_module

(provider,) = env.FLASHINFER_AOT_PROVIDERS
assert provider.provider_id == "sm121a", provider
assert provider.version == flashinfer_jit_cache.__version__ == version("flashinfer-python"), provider
assert "+" in provider.version, provider
for generate, function in ((gen_norm_module, "rmsnorm"), (gen_page_module, "append_paged_kv_cache"),
                           (gen_rope_module, "apply_rope")):
    spec = generate()
    path = Path(flashinfer_jit_cache.__file__).parents[1] / f"flashinfer_jit_cache_sm121a/jit_cache/{spec.name}"
    assert spec.get_library_path() == path / f"{spec.name}.so", spec.get_library_path()
    assert callable(getattr(spec.build_and_load(), function))
    print(f"{spec.name}: {function} from {path.name}/{spec.name}.so")
PY
cd "$work"
env -i HOME="$work" PATH=/usr/bin:/bin CUDA_HOME="$work/no-cuda" FLASHINFER_CUDA_ARCH_LIST=12.1a FLASHINFER_DISABLE_JIT=1 \
  "$work/env/bin/python" check.py
