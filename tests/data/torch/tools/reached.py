"""Writes what reached CMake: its environment, and values of its own given as name=value."""

import json
import os
import sys

target, *given = sys.argv[1:]
values = dict(one.split("=", 1) for one in given)
with open(target, "w", encoding="utf-8") as file:
    json.dump({"environment": dict(os.environ), "cmake": values}, file)
