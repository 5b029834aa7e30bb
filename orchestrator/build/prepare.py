"""From what a person asked for to a plan: reads recipes, stack, lock and store, and downloads nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.build import past, prebuilt
from orchestrator.build.localsources import local_digests, local_folders
from orchestrator.build.unread import refuse_unread, with_read_commits
from orchestrator.errors import NoSpaceError, StoreError, UnknownNameError, UsageError
from orchestrator.model.arch import Device, image_names, parse_request
from orchestrator.model.catalog import Catalog
from orchestrator.model.platform import Target
from orchestrator.model.stack import with_prebuilt
from orchestrator.plan.fit import stack_graph
from orchestrator.plan.key import MachineFacts
from orchestrator.plan.planner import PlanInputs, decide, keyed_steps
from orchestrator.report.events import Note
from orchestrator.source.mirrors import NO_MIRRORS, parse_mirrors
from orchestrator.store.artifacts import Store
from orchestrator.store.atomic import sha256_file
from orchestrator.store.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.errors import MachineError
    from orchestrator.model.lock import Lock
    from orchestrator.model.recipe import Recipe
    from orchestrator.model.stack import Stack
    from orchestrator.plan.planner import Past
    from orchestrator.plan.steps import Plan
    from orchestrator.report.events import Emit
    from orchestrator.source.mirrors import Mirrors
    from orchestrator.source.patch_format import Patch
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
    prebuilt: tuple[str, ...] = ()
    """Recipes that are taken as published although the stack builds them."""
    mirrors: tuple[str, ...] = ()
    """`FROM=TO` each: where sources and wheels are fetched from instead."""
    locked: bool = False
    """Only commits of the stack's own lock."""
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
    mirrors: Mirrors = NO_MIRRORS
    unfit: Mapping[str, MachineError] = field(default_factory=dict)
    """Step that builds -> what this machine lacks for it. A plan is shown, and others are probed."""

    def refuse_unfit(self) -> None:
        """Raise the first MachineError of `unfit`, if there is one: before anything is fetched or built."""
        for fault in self.unfit.values():
            raise fault

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
    stack = with_prebuilt(catalog.stack(stack_name(ask, catalog)), ask.prebuilt)
    target = Target.here()
    recipes = catalog.stack_recipes(stack)
    stack_graph(stack, recipes)  # mistakes in these come before those of a lock
    mirrors = parse_mirrors(ask.mirrors)
    lock = catalog.lock(stack.name, target)
    if not ask.locked:
        lock = with_read_commits(lock, home, target)
    local = local_folders(catalog, recipes, ask.sources)
    _refuse_unused(ask, stack)
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
    patches = _PatchFiles(catalog, recipes)
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
        # Of the diffs alone: a better reason at the top of the file builds nothing again.
        patch_digest=lambda recipe, patch: patches.read(recipe, patch).digest,
        patch_seen_at=lambda recipe, patch: patches.read(recipe, patch).seen_at,
        text_digest=lambda recipe, text: sha256_file(catalog.text_file(recipe, text)),
        device=device,
        local_sources=local_digests(local, home),
        prebuilt=ask.prebuilt,
    )
    keyed = keyed_steps(inputs, ask.names)
    if ask.locked:
        refuse_unread(keyed, lock, where=catalog.lock_path(stack.name, target))
    store = Store(home, emit)
    known = past.known(store, keyed)
    missing = [step.name for step in keyed if step.kind == "build" and step.key not in known]
    missing += [step.name for step in keyed if step.name in ask.prebuilt]  # what is saved by that is told
    last = past.latest(store) if missing or ask.names else {}
    units = past.units(home, missing)
    plan = decide(inputs, keyed, known, last, units, prebuilt.known(home, keyed))
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
        plan=plan,
        last=last,
        known=known,
        mirrors=mirrors,
        unfit=_unfit(plan, compiler),
    )


def _unfit(plan: Plan, compiler: Compiler) -> dict[str, MachineError]:
    from orchestrator.toolchain.demand import compiler_fault

    faults = {
        step.name: compiler_fault(compiler, step.keyed.view.build.compiler, name=step.name)
        for step in plan.builds
    }
    return {name: fault for name, fault in faults.items() if fault is not None}


def _refuse_unused(ask: Ask, stack: Stack) -> None:
    """Refuse a source for what is not built: it would be passed over without a word."""
    for text in ask.sources:
        name = text.partition("=")[0].partition("/")[0]
        if stack.components[name].prebuilt:
            raise UsageError(
                f"--source gives sources of {name}, which is taken as published",
                hint=f"leave it out; or --prebuilt, or `prebuilt: true` in stack {stack.name}",
            )


def stack_name(ask: Ask, catalog: Catalog) -> str:
    """Return the stack that is meant: named, the default one, or the only one that has the recipes.

    Raises:
        UnknownNameError: there is no recipe of a name.
        UsageError: no stack has all the recipes, or several have.
    """
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


class _PatchFiles:
    """Patches of recipes, each read once."""

    def __init__(self, catalog: Catalog, recipes: Mapping[str, Recipe]) -> None:
        self._catalog = catalog
        self._recipes = recipes
        self._read: dict[tuple[str, str], Patch] = {}

    def read(self, recipe: str, patch: str) -> Patch:
        from orchestrator.source.patch_format import read_patch

        if (recipe, patch) not in self._read:
            wanted = next(item for item in self._recipes[recipe].patches if item.name == patch)
            self._read[recipe, patch] = read_patch(self._catalog.patch_file(recipe, wanted))
        return self._read[recipe, patch]
