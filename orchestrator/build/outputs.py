"""What a build leaves: which files count, whether they are what the stack pins, and their local version."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.errors import BuildFailedError
from orchestrator.package.pack import Parcel, pack_wheel
from orchestrator.package.rewrite import epoch_of_commands, finish_wheel, local_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orchestrator.build.prepare import Prepared
    from orchestrator.plan.steps import Step


ANY_WHEEL = "*.whl"
"""What a step yields if its recipe says nothing else."""
RESERVED = frozenset({"manifest.json", "simple", "sparkbuild.json"})
"""Names that the store and dist need for their own files."""


def _outputs(step: Step, out: Path) -> list[Path]:
    recipe = step.keyed.view
    found: list[Path] = []
    for pattern in recipe.build.outputs:
        # A link could lead anywhere, and a folder is no wheel.
        matches = sorted(path for path in out.glob(pattern) if path.is_file() and not path.is_symlink())
        if not matches and recipe.build.wheels and pattern == ANY_WHEEL:
            continue  # all that the step yields is packed
        if not matches:
            raise BuildFailedError(
                f"the build left nothing that matches {pattern}",
                where=str(out),
                hint="commands must put their wheels into {out}; see the log",
            )
        found += [match for match in matches if match not in found]
    names = [path.name for path in found]
    for name in names:
        if name in RESERVED or name.startswith(".") or names.count(name) > 1:
            raise BuildFailedError(
                f"the build left {name!r}, which dist and store use for themselves, or more than once",
                where=str(out),
                hint="let the recipe's `outputs` name the wheels only",
            )
    return found


def repair_outputs(step: Step, out: Path, filled: Callable[[str], str], cc: Path) -> None:
    """Put a repaired wheel in the place of the one that a build left in `out`, where the recipe wants that.

    Args:
        step: what was built; wheels of other projects that it made are left alone.
        out: the output folder.
        filled: puts paths in the place of placeholders.
        cc: the host compiler.

    Raises:
        BuildFailedError: it cannot be repaired; see `repair_wheel`.
        ToolMissingError: there is no patchelf.
    """
    repair = step.keyed.view.build.repair
    if repair is None:
        return
    from packaging.utils import canonicalize_name

    from orchestrator.package.repair import found_repairs, repair_wheel

    repairs = found_repairs(repair, filled, cc)
    for wheel in _outputs(step, out):
        name = canonicalize_name(wheel.name.split("-")[0])
        if wheel.suffix == ".whl" and name == canonicalize_name(step.keyed.distribution):
            place = out.parent / "repaired"
            place.mkdir(exist_ok=True)
            repair_wheel(wheel, repairs, out=place).replace(wheel)


def finish(step: Step, prepared: Prepared, *, source: Path, out: Path, finished: Path) -> tuple[Path, ...]:
    """Check what the wheels that a build left in `out` claim to be, and finish them into `finished`.

    Wheels that the recipe has packed from files of `out` and of `source`, its main tree, are made there too.

    Raises:
        BuildFailedError: nothing matches the recipe's outputs or the files of its wheels, or a wheel has
            another name or version.
    """
    outputs = _outputs(step, out)
    torch = next(
        (
            prepared.plan.step(need).keyed.version
            for need in step.keyed.build_needs
            if prepared.plan.step(need).keyed.distribution == "torch"
        ),
        None,
    )
    local = local_version(
        toolkit=prepared.toolkit.version if prepared.toolkit and step.keyed.arch_env else None,
        torch=torch,
        arches=tuple(entry.arch.name for entry in step.keyed.entries),
    )
    _check_claims(step, [output for output in outputs if output.suffix == ".whl"])
    wheels = []
    for output in outputs:
        if output.suffix == ".whl":
            wheels.append(finish_wheel(output, local=local, epoch=epoch_of_commands(), out=finished))
        else:
            wheels.append(Path(shutil.copy2(output, finished / PurePosixPath(output.name))))
    return (*wheels, *_packed(step, prepared, {"src": source, "out": out}, local, finished))


def _packed(
    step: Step, prepared: Prepared, roots: Mapping[str, Path], local: str | None, finished: Path
) -> list[Path]:
    view = step.keyed.view
    parcel = Parcel(
        version=f"{view.version}+{local}" if local else view.version,
        sm="_".join(entry.arch.name.replace("_", "") for entry in step.keyed.entries),
        platform=view.platform.replace("-", "_"),
        roots=roots,
        texts={
            text: prepared.catalog.text_file(step.name, text)
            for wheel in view.build.wheels
            for text in wheel.texts.values()
        },
    )
    return [
        pack_wheel(wheel, parcel, epoch=epoch_of_commands(), into=finished) for wheel in view.build.wheels
    ]


def _check_claims(step: Step, wheels: Sequence[Path]) -> None:
    """See that the wheels are what the stack pins: another name or version means another source."""
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
    from packaging.version import Version

    wanted_name, wanted = canonicalize_name(step.keyed.distribution), Version(step.keyed.version)
    names = set()
    for wheel in wheels:
        try:
            name, version, _, _ = parse_wheel_filename(wheel.name)
        except InvalidWheelFilename as error:
            raise BuildFailedError(
                f"the build made {wheel.name}, which is no wheel's name: {error}", where=str(wheel)
            ) from error
        names.add(str(name))
        if version.public != wanted.public:
            raise BuildFailedError(
                f"the build made version {version}, the stack pins {wanted}",
                where=str(wheel),
                hint="it may come from git tags that the source does not have; set it in the recipe's env",
            )
    others = sorted(names - {wanted_name})
    if wheels and wanted_name not in names:
        raise BuildFailedError(
            f"the build made {', '.join(others)}, and no wheel named {wanted_name}",
            where=str(wheels[0].parent),
            hint="the recipe's `distribution` says how the wheel is named where that differs from the recipe",
        )
    if others and step.keyed.view.build.outputs == ("*.whl",):
        raise BuildFailedError(
            f"the build made wheels of other projects too: {', '.join(others)}",
            where=str(wheels[0].parent),
            hint="if they are meant, let the recipe's `outputs` name each",
        )
