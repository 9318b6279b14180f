"""The import table of the design, as data: a unit may import what stands beside it and nothing else."""

import ast
from pathlib import Path

import pytest

import glace

# Where the public names of the package live, module by module.
HOME = {name: home.partition(":")[0] for name, home in glace._HOME.items()}
SOURCE = Path(__file__).parents[1] / "src" / "glace"

BASE = {"errors", "rng", "records", "ids", "files", "options", "container", "archive", "metrics", "disk"}
MAY_IMPORT = {
    "errors": set(),
    "rng": {"errors"},
    "files": {"errors"},
    "ids": {"errors", "disk"},
    "options": {"errors"},
    "archive": {"errors"},
    "disk": {"errors"},
    "metrics": {"errors"},
    "container": {"errors", "files", "disk"},
    "records": {"errors", "files"},
    "kernels": {"errors"},
    "graph": BASE,
    "gaussian": BASE,
    "datasets": BASE | {"graph", "kernels"},
    "sampling": BASE | {"graph", "kernels"},
    "index": BASE | {"gaussian", "kernels"},
    "model": BASE | {"gaussian", "kernels"},
    "training": BASE | {"graph", "gaussian", "sampling", "model", "kernels"},
    "estimator": BASE | {"graph", "gaussian", "sampling", "model", "training", "index"},
    "baselines": BASE | {"graph", "gaussian", "sampling", "model", "training"},
    "evaluation": BASE | {"graph", "gaussian", "index"},
    "report": BASE | {"gaussian"},
    "server": BASE | {"graph", "gaussian", "index", "estimator"},
}
MAY_IMPORT["experiment"] = set(MAY_IMPORT) - {"report", "server"}
MAY_IMPORT["cli"] = {*MAY_IMPORT, "experiment"}

# Heavy libraries, and the units that may name them at the top of a file; elsewhere they are imported when used.
HEAVY_AT_TOP = {
    "torch": {"model", "training", "estimator", "baselines"},
    "sklearn": {"estimator"},
    "matplotlib": set(),
    "numba": {"kernels", "estimator"},
    "pandas": set(),
    "sentence_transformers": set(),
}
NEVER = {"graph": {"torch"}, "kernels": {"torch"}, "sampling": {"torch"}, "evaluation": {"torch"}}
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
        elif (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "glace"
        ):
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
            allowed = rest[0] == unit or rest[0] in MAY_IMPORT[unit]
            assert allowed, f"{path} imports {name}, which {unit} may not"
        assert top not in NEVER.get(unit, set()), f"{path} imports {name}, which {unit} never may"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries_are_imported_where_used(path):
    for node in ast.parse(path.read_text()).body:
        for name in imports(node) if isinstance(node, ast.Import | ast.ImportFrom) else []:
            top = name.split(".")[0]
            assert unit_of(path) in HEAVY_AT_TOP.get(top, {unit_of(path)}), (
                f"{path} imports {name} at its top"
            )


def test_every_public_name_has_a_home():
    assert sorted(glace.__all__) == sorted(HOME)


def test_every_unit_is_in_the_table():
    assert {unit_of(path) for path in MODULES} <= set(MAY_IMPORT)


def test_nothing_says_allow_pickle_true():
    assert not [path for path in FILES if "allow_pickle=True" in path.read_text()]
