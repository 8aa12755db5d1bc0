"""Walls that the import contracts do not see."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "rushes"
SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM)\b[^.]*\b(FROM|SET|VALUES|WHERE)\b")
MODULES = sorted(SOURCE.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_sql_is_only_in_stores_events_invariants_and_the_database() -> None:
    allowed = re.compile(r"(.*store\.py|events\.py|jobs/invariants\.py|db/.*)")
    outside = [name(path) for path in MODULES if not allowed.fullmatch(name(path))]
    assert outside
    offenders = [each for each in outside if SQL.search((SOURCE / each).read_text())]
    assert offenders == []


def test_programs_are_started_in_one_place_only() -> None:
    users = [name(path) for path in MODULES if "subprocess" in path.read_text()]
    assert set(users) <= {"tools/process.py"}


def test_no_file_has_outgrown_its_room() -> None:
    long = {name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {each: lines for each, lines in long.items() if lines > 600} == {}


# Where data has no type of its own yet, or not any more.
EDGES = (
    "cli/",  # reads and prints the API's answers
    "client/",  # hands on what the API answers
    "db/",  # where rows come from
    "jobs/invariants.py",  # shows people rows of whatever table is wrong
    "web/",  # makes JSON of records
)
UNTYPED = re.compile(r"\b(dict|Mapping|MutableMapping)\[str, (Any|object)\]")


def untyped_names(module: ast.Module) -> set[str]:
    """Names that stand for such a type in a module. JsonObject says that it is JSON by contract."""
    named = {
        target.id
        for each in module.body
        if isinstance(each, ast.Assign) and UNTYPED.search(ast.unparse(each.value))
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    return (named | {"Row", "Rows", "Params"}) - {"JsonObject"}


def public_types(body: list[ast.stmt], of: str = "") -> Iterator[tuple[str, str]]:
    """What a module's public functions take and return, and its public classes hold."""
    for each in body:
        if isinstance(each, ast.AnnAssign) and of:
            yield f"{of}{ast.unparse(each.target)}", ast.unparse(each.annotation)
        name = getattr(each, "name", "_")
        if name.startswith("_"):
            continue
        if isinstance(each, ast.ClassDef):
            yield from public_types(each.body, f"{of}{name}.")
        # A row becomes a record there.
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and "from_row" not in name:
            given = (*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs)
            types = [*(one.annotation for one in given), each.returns]
            yield f"{of}{name}", " ".join(ast.unparse(one) for one in types if one)


def test_data_that_crosses_modules_has_a_type() -> None:
    offenders = []
    for path in MODULES:
        if name(path).startswith(EDGES):
            continue
        module = ast.parse(path.read_text())
        untyped = untyped_names(module)
        for what, types in public_types(module.body):
            if UNTYPED.search(types) or untyped & set(re.findall(r"\w+", types)):
                offenders.append(f"{name(path)}: {what}")
    assert offenders == []


def test_rows_stay_in_the_store_that_has_read_them() -> None:
    stores = [path for path in MODULES if path.name.endswith("store.py")]
    assert stores
    passed_on = re.compile(r"tx\.(all|one|change)")
    offenders = [
        f"{name(path)}:{each.lineno}"
        for path in stores
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Return)
        and isinstance(each.value, ast.Call)
        and passed_on.fullmatch(ast.unparse(each.value.func))
    ]
    assert offenders == []


GUIDE = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text()


def drawn_modules() -> list[str]:
    """What the tree in ARCHITECTURE.md names below src/rushes. What is deeper than a folder's line
    belongs to that folder."""
    tree = GUIDE.split("src/rushes/\n", 1)[1].split("\ntests/", 1)[0]
    found, folders = [], [(0, "")]
    for line in tree.splitlines():
        depth = len(line) - len(line.lstrip())
        while depth <= folders[-1][0]:
            folders.pop()
        if folder := re.match(r" +(\w+/)(?: |$)", line):
            folders.append((depth, folders[-1][1] + folder[1]))
        found += [folders[-1][1] + each for each in re.findall(r"\b\w+\.py\b", line)]
    return sorted(found)


def test_the_tree_names_every_module_once_and_nothing_else() -> None:
    apart = re.compile(r"(.*__init__|__main__|db/migrations/versions/.*)\.py")
    real = [name(path) for path in MODULES if not apart.fullmatch(name(path))]
    assert drawn_modules() == sorted(real)


def test_the_layers_are_drawn_as_they_are_checked() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())
    [layers] = [
        each["layers"] for each in project["tool"]["importlinter"]["contracts"] if "layers" in each
    ]
    drawn = GUIDE.split("## Who may import whom")[1].split("```")[1]
    assert [" ".join(each.split()) for each in drawn.split("→")] == layers
