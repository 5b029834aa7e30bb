"""Globs on paths inside a wheel."""

from __future__ import annotations

import pytest

from orchestrator.audit.globs import installed, matches


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("cuda*.so", "cuda.cpython-311.so", True),
        ("*.so", "pkg/a.so", False),
        ("pkg/*.so", "pkg/a.so", True),
        ("pkg/*.so", "pkg/sub/a.so", False),
        ("**/*.so", "pkg/sub/a.so", True),
        ("**/*.so", "a.so", True),
        ("pkg/**", "pkg/sub/a.so", True),
        ("pkg/**/a.so", "pkg/a.so", True),
        ("pkg/a?.so", "pkg/ab.so", True),
        ("pkg/a?.so", "pkg/a/.so", False),
        ("lib[0-9].so", "lib3.so", True),
        ("lib[!0-9].so", "lib3.so", False),
        ("lib[.so", "lib[.so", True),
        ("a.so", "axso", False),
        ("a.so", "a.so.1", False),
        ("A.so", "a.so", False),
        ("(a|b)+.so", "(a|b)+.so", True),
        ("pkg/a.so", "x-1.0.data/platlib/pkg/a.so", True),
        ("a.so", "x-1.0.data/scripts/a.so", False),
    ],
)
def test_matches(pattern: str, path: str, expected: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    assert matches(pattern, path) is expected


def test_installed() -> None:
    assert installed("x-1.0.data/purelib/x.py") == "x.py"
    assert installed("x/y.data/purelib/x.py") == "x/y.data/purelib/x.py"
