"""From what a person asked for to a plan: reads recipes, stack, lock and store, and downloads nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import UnknownNameError, UsageError
from orchestrator.model.arch import Device, image_names, parse_request
from orchestrator.model.catalog import Catalog
from orchestrator.model.platform import Target
from orchestrator.plan.fit import stack_graph
from orchestrator.plan.key import MachineFacts
from orchestrator.plan.planner import Past, PlanInputs, decide, keyed_steps
from orchestrator.plan.steps import Estimate
from orchestrator.report.events import Note
from orchestrator.store.artifacts import Artifact, Store
from orchestrator.store.facts import Facts
from orchestrator.store.listing import entries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.model.lock import Lock
    from orchestrator.model.recipe import Recipe
    from orchestrator.model.stack import Stack
    from orchestrator.plan.steps import KeyedStep, Plan
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
    with suppress(OSError):  # where nothing can be written, a plan is merely slower
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
    local = _own_folders(catalog, recipes) | _local_sources(ask.sources, recipes)
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
        local_sources=_local_digests(local),
    )
    keyed = keyed_steps(inputs, ask.names)
    store = Store(home, emit)
    known = _known(store, keyed)
    missing = any(step.kind == "build" and step.key not in known for step in keyed)
    last = latest(store) if missing or ask.names else {}
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


def _own_folders(catalog: Catalog, recipes: Mapping[str, Recipe]) -> dict[tuple[str, str], Path]:
    """Return (recipe, source) -> folder for every source that a recipe itself takes from a folder."""
    return {
        (name, key): (catalog.recipe_path(name).parent / source.local).absolute()
        for name, recipe in recipes.items()
        for key, source in recipe.sources.items()
        if source.local is not None
    }


def _local_sources(given: Sequence[str], recipes: Mapping[str, Recipe]) -> dict[tuple[str, str], Path]:
    """Return (recipe, source) -> folder for every `--source NAME=DIR`."""
    found: dict[tuple[str, str], Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        recipe, _, source = name.partition("/")
        source = source or "main"
        if not equals or not folder:
            raise UsageError(
                f"--source {text!r} is not NAME=DIR", hint="such as causal-conv1d=../causal-conv1d"
            )
        if recipe not in recipes:
            raise UnknownNameError("recipe in this stack", recipe, recipes)
        if source not in recipes[recipe].sources:
            raise UnknownNameError(f"source of {recipe}", source, recipes[recipe].sources)
        path = Path(folder).expanduser().absolute()
        if not path.is_dir():
            raise UsageError(
                f"--source {name}: {path} is no folder", hint="name the folder that holds the source"
            )
        found[recipe, source] = path
    return found


def _local_digests(local: Mapping[tuple[str, str], Path]) -> dict[tuple[str, str], str]:
    if not local:
        return {}
    from orchestrator.source.local import tree_digest

    return {key: tree_digest(path) for key, path in local.items()}


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


def _known(store: Store, steps: Sequence[KeyedStep]) -> dict[str, Past]:
    """Return what the store holds under the keys of these steps."""
    found: dict[str, Past] = {}
    for step in steps:
        if step.kind != "build" or step.key is None:
            continue
        if artifact := store.get(step.key):
            found[step.key] = _past(artifact, rejected=False)
        elif artifact := store.get_rejected(step.key):
            found[step.key] = _past(artifact, rejected=True)
    return found


def _past(artifact: Artifact, *, rejected: bool) -> Past:
    cost = artifact.manifest.cost
    estimate = Estimate(cost.cpu_s, cost.peak_bytes, artifact.size)
    return Past(artifact.manifest.ingredients, rejected=rejected, estimate=estimate)


def latest(store: Store) -> dict[str, Past]:
    """Return recipe -> its newest artifact, served or rejected, of whatever key."""
    newest: dict[str, tuple[str, Past]] = {}
    for entry in entries(store.home):
        if entry.artifact is None:
            continue
        manifest = entry.artifact.manifest
        if manifest.name not in newest or manifest.created >= newest[manifest.name][0]:
            newest[manifest.name] = (manifest.created, _past(entry.artifact, rejected=entry.rejected))
    return {name: past for name, (_, past) in newest.items()}
