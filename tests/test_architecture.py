"""The import table of the design, as data: a unit may import what stands beside it and nothing else."""

import ast
import graphlib
from pathlib import Path
from typing import cast

import pytest

import glace
from tests.conftest import SLOW, TESTS

# Where the public names of the package live, module by module.
HOME = {name: home.partition(":")[0] for name, home in glace._HOME.items()}
SOURCE = Path(__file__).parents[1] / "src" / "glace"

BASE = {"errors", "cores", "rng", "ids", "categories", "sparse", "values", "blocks", "options", "records", "metrics"}
MAY_IMPORT = {unit: {"errors"} for unit in BASE} | {"errors": set()}
MAY_IMPORT["ids"] |= {"blocks"}
MAY_IMPORT["sparse"] |= {"blocks", "ids"}
MAY_IMPORT["values"] |= {"blocks", "sparse"}
MAY_IMPORT["categories"] |= {"blocks", "ids"}
MAY_IMPORT |= {
    "kernels": BASE,
    "storage": BASE,
    "config": BASE,
    "features": BASE | {"storage"},
    "drawing": BASE | {"storage"},
    "graph": BASE | {"storage", "features"},
    "gaussian": BASE | {"storage"},
    "io": BASE | {"storage", "kernels", "features", "graph"},
    "sampling": BASE | {"storage", "kernels", "config", "graph"},
    "datasets": BASE | {"storage", "kernels", "features", "graph", "io"},
    "model": BASE | {"storage", "kernels", "config", "gaussian"},
    "queries": BASE | {"storage", "kernels", "graph", "gaussian"},
}
MAY_IMPORT["fitted"] = BASE | {"storage", "kernels", "config", "features", "graph", "model", "gaussian", "queries"}
MAY_IMPORT["training"] = MAY_IMPORT["fitted"] | {"fitted", "sampling"}
MAY_IMPORT["estimators"] = MAY_IMPORT["training"] | {"training"}
MAY_IMPORT["experiments"] = MAY_IMPORT["estimators"] | {"estimators", "datasets", "io", "drawing"}
MAY_IMPORT["report"] = BASE | {"storage", "config", "fitted", "queries", "gaussian", "graph", "drawing"}
MAY_IMPORT["server"] = BASE | {"storage", "fitted", "queries", "gaussian", "graph", "features"}
MAY_IMPORT["spark"] = MAY_IMPORT["ray"] = BASE | {"features", "fitted"}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
MAY_IMPORT["__main__"] = {"cli"}

# Imports outside of the table that are still to be removed: the list may only shrink.
PENDING: set[tuple[str, str]] = set()

# Heavy libraries, and the units that may name them at the top of a file; elsewhere they are imported when used.
HEAVY_AT_TOP = {
    "torch": {"model", "training", "estimators", "experiments"},
    "sklearn": {"estimators"},
    "matplotlib": set(),
    "numba": {"kernels", "training", "experiments", "estimators"},
    "pandas": set(),
    "sentence_transformers": set(),
    "pyspark": set(),
    "ray": set(),
    "duckdb": set(),
}
NEVER = {
    unit: {"torch"}
    for unit in ("graph", "kernels", "sampling", "features", "io", "queries", "config", "storage", "datasets")
}
UNSAFE = {"pickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"}


def unit_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imports(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += names if node.module == "glace" else [str(node.module)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "glace":
            found.append(HOME.get(node.attr, f"glace.{node.attr}"))  # `import glace`, then glace.name
    return found


FILES = sorted(SOURCE.rglob("*.py"))
MODULES = [path for path in FILES if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_stay_inside_the_table(path):
    unit, tree = unit_of(path), ast.parse(path.read_text())
    for name in imports(tree):
        top, *rest = name.split(".")
        assert top not in UNSAFE, f"{path} imports {name}; files are never unpickled"
        if top == "glace" and rest and rest[0] != "__version__":
            pending = (".".join(path.relative_to(SOURCE).with_suffix("").parts), ".".join(rest)) in PENDING
            allowed = rest[0] == unit or rest[0] in MAY_IMPORT[unit] or pending
            assert allowed, f"{path} imports {name}, which {unit} may not"
        assert top not in NEVER.get(unit, set()), f"{path} imports {name}, which {unit} never may"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries_are_imported_where_used(path):
    for node in ast.parse(path.read_text()).body:
        for name in imports(node) if isinstance(node, ast.Import | ast.ImportFrom) else []:
            top = name.split(".")[0]
            assert unit_of(path) in HEAVY_AT_TOP.get(top, {unit_of(path)}), f"{path} imports {name} at its top"


def test_every_public_name_has_a_home():
    assert sorted(cast("list[str]", glace.__all__)) == sorted(HOME)


def test_type_checkers_see_the_public_names():
    blocks = [node.body for node in ast.parse((SOURCE / "__init__.py").read_text()).body if isinstance(node, ast.If)]
    (block,) = blocks
    imported = [node for node in block if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: (node.module, alias.name) for node in imported for alias in node.names}
    public = {name: (module, name) for module, names in glace._PUBLIC.items() for name in names}
    assert seen == public | {"datasets": ("glace", "datasets")}


def test_every_unit_is_in_the_table():
    assert {unit_of(path) for path in MODULES} <= set(MAY_IMPORT)


def test_nothing_says_allow_pickle_true():
    assert not [path for path in FILES if "allow_pickle=True" in path.read_text()]


def imported_modules(path: Path) -> set[str]:
    """The modules of the package that a module imports, lazily or not, but for type checking."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "glace":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in NAMES else str(node.module) for name in names}
    pending = {f"glace.{other}" for own, other in PENDING if name_of(path) == f"glace.{own}"}
    return {name for name in found if name in NAMES and name != name_of(path)} - pending


def name_of(path: Path) -> str:
    return ".".join(("glace", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


NAMES = {name_of(path) for path in MODULES}


def test_modules_do_not_import_each_other_in_a_circle():
    graph = {name_of(path): imported_modules(path) for path in MODULES}
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as problem:
        pytest.fail(f"modules import each other: {' -> '.join(problem.args[1])}")


@pytest.mark.parametrize("name", SLOW)
def test_slow_tests_exist(name):
    path, _, function = name.partition("::")
    assert (TESTS / path).exists()
    assert not function or f"def {function}(" in (TESTS / path).read_text()
