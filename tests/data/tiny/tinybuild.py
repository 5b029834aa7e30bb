"""The tiny project's own PEP 517 backend: compiles two units with nvcc and zips a wheel."""

import os
import subprocess
import sys
import sysconfig
import zipfile

UNITS = ("scale", "shift")


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    gencode = os.environ["TINY_NVCC_GENCODE"].split()
    nvcc = os.path.join(os.environ["CUDA_HOME"], "bin", "nvcc")
    objects = []
    for unit in UNITS:
        command = [nvcc, "-c", f"csrc/{unit}.cu", "-o", f"{unit}.o", "-Xcompiler=-fPIC"]
        command += ["-Ithird_party/tinymath", *gencode]
        print(*command, flush=True)
        subprocess.run(command, check=True)
        objects.append(f"{unit}.o")
    subprocess.run([nvcc, "-shared", "-cudart=shared", "-o", "_C.so", *objects, *gencode], check=True)
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = f"{python}-{python}-{platform}"
    name = f"tiny_cuda-1.0-{tag}.whl"
    members = {
        "tiny_cuda/__init__.py": open("tiny_cuda/__init__.py", "rb").read(),
        "tiny_cuda/_C.so": open("_C.so", "rb").read(),
        "tiny_cuda-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-cuda\nVersion: 1.0\n",
        "tiny_cuda-1.0.dist-info/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: tinybuild\nRoot-Is-Purelib: false\nTag: {tag}\n"
        ).encode(),
    }
    record = "".join(f"{path},,\n" for path in [*members, "tiny_cuda-1.0.dist-info/RECORD"])
    members["tiny_cuda-1.0.dist-info/RECORD"] = record.encode()
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in members.items():
            wheel.writestr(path, data)
    return name
