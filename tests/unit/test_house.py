"""What holds of the whole house, and no linter knows: one name for one thing, no nameless tuple from one part to another, and a DESIGN.md that
names what is there."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("shipper", "spark_jobs", "dags", "shipper_airflow")
#: Where a record and the ledger's word of it pass.
_ON_THE_WAY = ("kafka", "ledger", "worker", "driver", "windows", "verify")


def _modules(*folders: str) -> dict[Path, ast.Module]:
    return {path: _parsed(path) for folder in folders for path in sorted((_ROOT / folder).rglob("*.py"))}


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_a_class_name_stands_once() -> None:
    names = Counter(
        node.name
        for module in _modules(*_PACKAGES).values()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def _nameless(annotation: ast.expr | None) -> Iterator[str]:
    """Tuples of so many members, whose places nobody has named; lists of lists."""
    for node in ast.walk(annotation) if annotation else ():
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            members = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            any_number = isinstance(members[-1], ast.Constant) and members[-1].value is ...
            of_lists = node.value.id == "list" and ast.unparse(node.slice).startswith(("list[", "tuple["))
            if (node.value.id == "tuple" and len(members) > 1 and not any_number) or of_lists:
                yield ast.unparse(node)


def _public(body: list[ast.stmt], *, of_class: bool = False) -> Iterator[tuple[str, ast.expr | None]]:
    """(name, annotation) of what other modules may be given, or give."""
    for node in body:
        name = getattr(node, "name", None) or getattr(getattr(node, "target", None), "id", "")
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield from ((f"{name}({argument.arg})", argument.annotation) for argument in arguments)
            yield f"{name}()", node.returns
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{name}.{inner}", annotation) for inner, annotation in _public(node.body, of_class=True))
        elif isinstance(node, ast.AnnAssign) and of_class:
            yield name, node.annotation


def test_no_nameless_tuple_goes_from_module_to_module_on_the_way_of_a_record() -> None:
    found = [
        f"{path.relative_to(_ROOT)}: {name}: {nameless}"
        for path, module in _modules(*(f"shipper/{folder}" for folder in _ON_THE_WAY)).items()
        for name, annotation in _public(module.body)
        for nameless in _nameless(annotation)
    ]
    assert found == [], "a NamedTuple or a dataclass says what stands where"


def test_dags_import_nothing_of_ours_but_the_library_and_the_plugin() -> None:
    imported = {
        name.partition(".")[0]
        for module in _modules("dags").values()
        for node in ast.walk(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    ours = {path.name for path in _ROOT.iterdir() if path.is_dir()} | {"shipper_factory", "shipper_tools"}
    assert imported & ours == {"shipper", "shipper_airflow", "shipper_factory"}


def test_design_names_only_files_that_are_there() -> None:
    text = (_ROOT / "DESIGN.md").read_text()
    there = [str(path.relative_to(_ROOT)) for folder in (*_PACKAGES, "tools") for path in (_ROOT / folder).rglob("*.py")]
    named = {name for code in re.findall(r"`([^`]+)`", text) for name in re.findall(r"[\w/]+\.py", code)}
    assert named, "DESIGN.md names files"
    assert {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)} == set()


def test_design_orders_the_folders_as_the_import_contract_does() -> None:
    config = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    [layers] = [found["layers"] for found in config["tool"]["importlinter"]["contracts"] if found["name"] == "the layers"]
    folders = [name for layer in layers if (_ROOT / (name := layer.replace(".", "/"))).is_dir()]
    rows = re.findall(r"^\| `(shipper/\w+)` \|", (_ROOT / "DESIGN.md").read_text(), re.MULTILINE)
    assert rows == folders[::-1], "each may import those above it"
