"""From what a person asked for to a plan: reads recipes, stack, lock and store, and downloads nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.build import past
from orchestrator.build.localsources import local_digests, local_folders
from orchestrator.errors import NoSpaceError, StoreError, UnknownNameError, UsageError
from orchestrator.model.arch import Device, image_names, parse_request
from orchestrator.model.catalog import Catalog
from orchestrator.model.platform import Target
from orchestrator.plan.fit import stack_graph
from orchestrator.plan.key import MachineFacts
from orchestrator.plan.planner import PlanInputs, decide, keyed_steps
from orchestrator.report.events import Note
from orchestrator.store.artifacts import Store
from orchestrator.store.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.model.lock import Lock
    from orchestrator.model.recipe import Recipe
    from orchestrator.model.stack import Stack
    from orchestrator.plan.planner import Past
    from orchestrator.plan.steps import Plan
    from orchestrator.report.events import Emit
    from orchestrator.store.home import Home
    from orchestrator.toolchain.compiler import Compiler
    from orchestrator.toolchain.cuda import Toolkit


@dataclass(frozen=True, slots=True)
class Ask:
    """What a person asked for, as typed."""

    names: tuple[str, ...] = ()
    """Recipes; empty for the whole stack."""
    arch: str | None = None
    device: str | None = None
    stack: str | None = None
    cuda: str = "auto"
    sources: tuple[str, ...] = ()
    """`NAME=DIR` each."""
    recipe_folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, and all that it was made from."""

    ask: Ask
    catalog: Catalog
    stack: Stack
    lock: Lock
    target: Target
    recipes: Mapping[str, Recipe]
    toolkit: Toolkit | None
    compiler: Compiler
    local_sources: Mapping[tuple[str, str], Path]
    plan: Plan
    last: Mapping[str, Past]
    known: Mapping[str, Past] = field(default_factory=dict)

    @property
    def toolkit_text(self) -> str:
        """Which toolkit is used and why, for people."""
        return self.toolkit.text if self.toolkit else "no CUDA toolkit"


def prepare(ask: Ask, home: Home, emit: Emit) -> Prepared:
    """Plan what `ask` says.

    Raises:
        UsageError and its kin (2): arguments, recipes, stack or lock with a mistake.
        MachineError and its kin (4): no compiler, or a toolkit that was insisted on does not serve.
    """
    from orchestrator.toolchain.compiler import host_compiler
    from orchestrator.toolchain.cuda import decide_toolkit
    from orchestrator.toolchain.python import libc_version, python_abi

    if not ask.arch:
        raise UsageError(
            "no arch: nothing is built for a GPU that nobody named",
            hint="add --arch 12.1a for a DGX Spark; others: nvidia-smi --query-gpu=compute_cap --format=csv",
        )
    with suppress(StoreError, NoSpaceError):  # where nothing can be written, a plan is merely slower
        home.claim()
    device = Device.parse(ask.device) if ask.device else None
    arch = parse_request(ask.arch, device)
    for note in arch.notes:
        emit(Note(note.level, note.text))
    catalog = Catalog.default(ask.recipe_folders)
    if replaced := catalog.overridden():
        emit(Note("info", f"your own files take the place of built-in ones: {', '.join(replaced)}"))
    stack = catalog.stack(_stack_name(ask, catalog))
    target = Target.here()
    recipes = catalog.recipes(stack.components)
    stack_graph(stack, recipes)  # mistakes in these come before those of a lock
    lock = catalog.lock(stack.name, target)
    local = local_folders(catalog, recipes, ask.sources)
    facts = Facts(home.facts)
    compiler = host_compiler(facts)
    toolkit = None
    if stack.toolkit is not None:
        toolkit = decide_toolkit(
            ask.cuda,
            spec=stack.toolkit,
            files=lock.toolkit,
            facts=facts,
            archs=image_names(arch.entries),
            compiler=compiler,
        )
    inputs = PlanInputs(
        stack=stack,
        lock=lock,
        recipes=recipes,
        arch=arch,
        machine=MachineFacts(
            platform=target.platform,
            python_abi=python_abi(),
            libc=libc_version(),
            compiler=compiler.identity,
            toolkit=toolkit.identity if toolkit else None,
            environment=_environment_facts(),
        ),
        patch_digest=_PatchDigests(catalog, recipes),
        device=device,
        local_sources=local_digests(local, home),
    )
    keyed = keyed_steps(inputs, ask.names)
    store = Store(home, emit)
    known = past.known(store, keyed)
    missing = any(step.kind == "build" and step.key not in known for step in keyed)
    last = past.latest(store) if missing or ask.names else {}
    return Prepared(
        ask=ask,
        catalog=catalog,
        stack=stack,
        lock=lock,
        target=target,
        recipes=recipes,
        toolkit=toolkit,
        compiler=compiler,
        local_sources=local,
        plan=decide(inputs, keyed, known, last),
        last=last,
        known=known,
    )


def _stack_name(ask: Ask, catalog: Catalog) -> str:
    """Return the stack that is meant: named, the default one, or the only one that has the recipes."""
    if ask.stack:
        return ask.stack
    default = catalog.default_stack()
    if all(name in catalog.stack(default).components for name in ask.names):
        return default
    for name in ask.names:
        if name not in catalog.names():
            raise UnknownNameError("recipe", name, catalog.names())
    having = [
        name
        for name in catalog.stacks()
        if all(wanted in catalog.stack(name).components for wanted in ask.names)
    ]
    if len(having) == 1:
        return having[0]
    raise UsageError(
        f"{', '.join(ask.names)}: " + (f"in stacks {', '.join(having)}" if having else "in no one stack"),
        hint="name one with --stack",
    )


def _environment_facts() -> dict[str, str]:
    """Return the part of the commands' environment that reaches every build alike, whatever the folders."""
    from orchestrator.build.environ import command_environ, keyed
    from orchestrator.package.rewrite import epoch_of_commands

    work, tools, layers = Path("/work-folder"), Path("/tools-folder"), Path("/layers-folder")
    environ = command_environ(
        prefix=work / "env",
        home=work / "home",
        tmp=work / "tmp",
        jobs=1,
        source_date_epoch=epoch_of_commands(),
        maps={work: "step", layers: "layers"},
        toolkit=tools,
        cc=tools / "cc",
        cxx=tools / "c++",
    )
    return keyed(environ, places={work: "work", tools: "tools", layers: "layers"})


class _PatchDigests:
    """sha256 of patch files, each read once."""

    def __init__(self, catalog: Catalog, recipes: Mapping[str, Recipe]) -> None:
        self._catalog = catalog
        self._recipes = recipes

    def __call__(self, recipe: str, patch: str) -> str:
        from orchestrator.source.patch_format import read_patch

        wanted = next(item for item in self._recipes[recipe].patches if item.name == patch)
        # Of the diffs alone: a better reason at the top of the file builds nothing again.
        return read_patch(self._catalog.patch_file(recipe, wanted)).digest
