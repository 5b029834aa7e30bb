"""A C project that is built like with make, by time stamps alone, in runs of `PureStack`."""

from __future__ import annotations

MAKE = """\
import glob, os, subprocess
objects = []
for source in sorted(glob.glob("*.c")):
    output = source[:-2] + ".o"
    objects.append(output)
    if not os.path.exists(output) or os.path.getmtime(output) < os.path.getmtime(source):
        print("compile", source, flush=True)
        subprocess.run([os.environ["CC"], "-O2", "-c", source, "-o", output], check=True)
with open("after.py") as file:
    exec(file.read())
says += [len(objects), [open(path, "rb").read().hex() for path in objects]]
"""
"""Code for `PureStack.project`; `after.py` lies in the project and runs when all is compiled."""


def unit(number: int, *, size: int = 1) -> str:
    """Return a source; the larger, the longer it takes: about a second for 100."""
    lines = [f"int number(void) {{ return {number}; }}"]
    for index in range(size):
        body = "".join(f"x = x * {index + step}u ^ (x >> {step % 31});" for step in range(1, 40))
        lines.append(f"unsigned f{number}_{index}(unsigned x) {{ {body} return x; }}")
    return "\n".join(lines)
