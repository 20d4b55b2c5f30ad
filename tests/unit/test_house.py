"""What holds of the whole house, and no linter knows: one name for one thing, no nameless tuple
from one part to another, and a design page that names what is there."""

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
_DESIGN = _ROOT / "docs" / "understand" / "design.md"
_PACKAGES = ("shipper", "spark_jobs", "shipper_airflow")
#: Where a record and the ledger's word of it pass.
_ON_THE_WAY = ("kafka", "ledger", "worker", "driver", "windows", "verify")


def _modules(*folders):
    return {
        path: _parsed(path) for folder in folders for path in sorted((_ROOT / folder).rglob("*.py"))
    }


@cache
def _parsed(path):
    return ast.parse(path.read_text())


@cache
def _nodes():
    return {path: list(ast.walk(tree)) for path, tree in _modules(*_PACKAGES).items()}


def test_a_class_name_stands_once():
    nodes = [node for found in _nodes().values() for node in found]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    names = Counter(node.name for node in classes if not node.name.startswith("_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_modules_name_stands_once():
    """A place in a message or a stack trace is found without its folder. A command's module is
    named by the command, and `__main__` by Python."""
    names = Counter(path.name for path in _modules(*_PACKAGES) if not path.name.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_functions_are_short_and_take_few_parameters():
    """Those of a command are its options, and those of an operator are what a DAG file says."""
    too_large = []
    for path, nodes in _nodes().items():
        for node in nodes:
            if not isinstance(node, ast.FunctionDef):
                continue
            name, lines = f"{path.relative_to(_ROOT)}: {node.name}", node.end_lineno - node.lineno
            taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            most = 6 + (bool(taken) and taken[0].arg in ("self", "cls"))
            public = any("command" in ast.unparse(each) for each in node.decorator_list)
            if path.name == "operators.py" and node.name == "__init__":
                public = True
            if lines >= 60 or (len(taken) > most and not public):
                too_large.append(f"{name}: {lines + 1} lines, {len(taken)} parameters")
    assert too_large == []


_OF_RUNTIME = ("concurrent.futures", "queue", "secrets", "threading", "time")


def test_time_threads_locks_and_chance_come_from_one_module():
    """The simulated world replaces them there."""
    wrong = [
        f"{path.relative_to(_ROOT)}:{node.lineno}"
        for path, nodes in _nodes().items()
        if path != _ROOT / "shipper" / "runtime.py"
        for node in nodes
        if (isinstance(node, ast.Import) and any(one.name in _OF_RUNTIME for one in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module in (*_OF_RUNTIME, "shipper.runtime"))
        or (isinstance(node, ast.Attribute) and ast.unparse(node).endswith("datetime.now"))
    ]
    assert wrong == []


#: Attributes that hold sentences, and methods that take a text apart.
_SENTENCES = {"text", "remedy", "headline", "error", "cause", "why", "reason", "message", "problem"}
_TAKE_APART = {"startswith", "endswith", "replace", "partition", "split", "removeprefix", "find"}
#: The text of a place in a YAML file.
_NO_SENTENCE = {"place.text"}


def _is_sentence(node):
    return (
        isinstance(node, ast.Attribute)
        and node.attr in _SENTENCES
        and ast.unparse(node) not in _NO_SENTENCE
    )


def _read_again(node):
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return _is_sentence(node.comparators[0])
    called = node.func if isinstance(node, ast.Call) else None
    return (
        isinstance(called, ast.Attribute)
        and called.attr in _TAKE_APART
        and _is_sentence(called.value)
    )


def test_no_code_reads_a_sentence_that_other_code_wrote():
    assert [
        f"{path.relative_to(_ROOT)}:{node.lineno}"
        for path, nodes in _nodes().items()
        for node in nodes
        if _read_again(node)
    ] == []


def _nameless(annotation):
    """Tuples of so many members, whose places nobody has named; lists of lists."""
    for node in ast.walk(annotation) if annotation else ():
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            members = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            any_number = isinstance(members[-1], ast.Constant) and members[-1].value is ...
            of_lists = node.value.id == "list" and ast.unparse(node.slice).startswith(
                ("list[", "tuple[")
            )
            if (node.value.id == "tuple" and len(members) > 1 and not any_number) or of_lists:
                yield ast.unparse(node)


def _public(body, *, of_class=False):
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
            yield from (
                (f"{name}.{inner}", annotation)
                for inner, annotation in _public(node.body, of_class=True)
            )
        elif isinstance(node, ast.AnnAssign) and of_class:
            yield name, node.annotation


def test_no_nameless_tuple_goes_from_module_to_module_on_the_way_of_a_record():
    found = [
        f"{path.relative_to(_ROOT)}: {name}: {nameless}"
        for path, module in _modules(*(f"shipper/{folder}" for folder in _ON_THE_WAY)).items()
        for name, annotation in _public(module.body)
        for nameless in _nameless(annotation)
    ]
    assert found == [], "a NamedTuple or a dataclass says what stands where"


def test_design_names_only_files_that_are_there():
    text = _DESIGN.read_text()
    there = [
        str(path.relative_to(_ROOT))
        for folder in (*_PACKAGES, "tools", "tests")
        for path in (_ROOT / folder).rglob("*.py")
    ]
    named = {
        name for code in re.findall(r"`([^`]+)`", text) for name in re.findall(r"[\w/]+\.py", code)
    }
    assert named, "the page names files"
    assert {
        name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)
    } == set()


def test_design_orders_the_folders_as_the_import_contract_does():
    config = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    [layers] = [
        found["layers"]
        for found in config["tool"]["importlinter"]["contracts"]
        if found["name"] == "the layers"
    ]
    folders = [name for layer in layers if (_ROOT / (name := layer.replace(".", "/"))).is_dir()]
    rows = re.findall(r"^\| `(shipper/\w+)` \|", _DESIGN.read_text(), re.MULTILINE)
    assert rows == folders[::-1], "each may import those above it"


_LEDGER_LOG = "shipper/ledger/log.py"
#: Calls that write a file, wherever they do.
_WRITES = {"write_text", "write_bytes", "pipe_file", "pipe", "copyfile", "copy2", "put_file"}
#: Why a module writes a file without shipper.whole_files.
_ALLOWED_WRITES = {
    "shipper/whole_files.py": "it is the one place",
    "shipper/cli/samples.py": "a temporary folder",
    "shipper/jars.py": "a cache: a jar gets its name when its checksum is right",
    "shipper/runner.py": "a temporary folder",
    "shipper/processes.py": "a mark on a process of its own",
    "spark_jobs/jvm.py": "a temporary folder",
    "spark_jobs/make_class_data.py": "a temporary folder",
    "shipper_airflow/dags/last_good.py": "a copy with the source's time, renamed when it is whole",
    "tools/shipper_tools/bench/files.py": "gigabytes of samples, a portion at a time",
    "tools/shipper_tools/dev/certificates.py": "keys that nobody else may read",
    "tools/shipper_tools/dev/process.py": "logs, and files that nobody else may read",
    "tools/shipper_tools/dev/relock.py": "a temporary folder",
}


def file_writes_in(module):
    """Return the calls that write a file, but for those into what ``output_file`` gave, and those
    of a RunFolder."""
    given = {
        item.optional_vars.id
        for node in ast.walk(module)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.context_expr, ast.Call)
        and getattr(item.context_expr.func, "id", None) == "output_file"
        and isinstance(item.optional_vars, ast.Name)
    }
    found = []
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(node.func, "value", None)
        written = [owner, *node.args]
        texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
        writes = (name in _WRITES and node.args) or (
            name in ("open", "fdopen")
            and any(
                isinstance(text, str) and re.fullmatch(r"[wax][bt+]*(:\w*)?", text)
                for text in texts
            )
        )
        of_run_folder = name == "write_text" and re.search(
            r"(folder|self)$", ast.unparse(owner) if owner else ""
        )
        if (
            writes
            and not of_run_folder
            and not {getattr(each, "id", None) for each in written} & given
        ):
            found.append(ast.unparse(node))
    return found


def test_every_file_is_written_whole_or_not_at_all():
    writes = {
        str(path.relative_to(_ROOT)): found
        for path, module in _modules(*_PACKAGES, "tools").items()
        if (found := file_writes_in(module))
    }
    assert {name: found for name, found in writes.items() if name not in _ALLOWED_WRITES} == {}, (
        "use shipper.whole_files"
    )
    assert _ALLOWED_WRITES.keys() - writes.keys() == set(), "no longer needed"


#: What these modules read of the ledger decides what is sent.
_DECIDES = re.compile(
    r"shipper/(worker/.*|ledger/(takeover|writing|archive|repair)|driver/ship)\.py"
)


class Look(NamedTuple):
    """A use of a ``look…`` read."""

    module: str
    function: str
    """Qualified name of the function around it."""
    read: str


#: Why a module that decides may look at the ledger without deciding.
_ALLOWED_LOOKS = {
    Look(
        "shipper/worker/task.py", "TaskAttempt.count_tasks", "look"
    ): "only the share of the rate limit depends on it",
    Look(
        "shipper/ledger/takeover.py", "announce", "look"
    ): "the run reads again, for a decision, once its generation is written",
    Look(
        "shipper/driver/ship.py", "ClusterShip._there", "look"
    ): "a sentence about a ship that was stopped; nothing is sent after it",
    Look(
        "shipper/driver/ship.py", "ClusterShip.draw_timeline", "look"
    ): "a picture on the report's page",
    Look(
        "shipper/ledger/repair.py", "damage", "look"
    ): "a list for a person, who names what is to be mended",
}


def _defines(name, module):
    return next(
        (node for node in ast.walk(module) if isinstance(node, ast.ClassDef) and node.name == name),
        None,
    )


def _is_decided(node, names):
    """Return True for ``Decided``, for one of its other ``names``, and for ``Decided[…]``."""
    if isinstance(node, ast.Subscript):
        return _is_decided(node.value, names)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.partition("[")[0] == "Decided"
    return getattr(node, "id", None) in names or getattr(node, "attr", None) == "Decided"


def decisions_made_in(module):
    """Return the expressions by which ``module`` makes a ``Decided``: a call, a cast, a call with
    the class as its argument, a class of that kind. What the class itself does is left out."""
    own = _defines("Decided", module)
    outside = set(ast.walk(module)) - set(ast.walk(own) if own else ())
    names = {"Decided"}
    for node in outside:
        if isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name for each in node.names if each.name == "Decided"}
        elif isinstance(node, ast.ClassDef) and any(
            _is_decided(base, names) for base in node.bases
        ):
            names.add(node.name)
    found = []
    for node in outside:
        if isinstance(node, ast.ClassDef) and any(_is_decided(base, names) for base in node.bases):
            found.append(f"class {node.name}")
        if not isinstance(node, ast.Call) or getattr(node.func, "id", None) in (
            "isinstance",
            "issubclass",
        ):
            continue
        owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(_is_decided(each, names) for each in (node.func, owner, *given)):
            found.append(ast.unparse(node))
    return found


def private_steps_in(module):
    """Return the uses of what is a step of a decision: a method whose name holds `barrier`, and the
    answer of a question that is called."""
    called = {node.func for node in ast.walk(module) if isinstance(node, ast.Call)}
    uses = [node for node in ast.walk(module) if isinstance(node, ast.Attribute)]
    return [
        ast.unparse(use)
        for use in uses
        if "barrier" in use.attr or (use.attr == "answer" and use in called)
    ]


def looks_in(name, module, reads):
    """Return the uses of ``reads``, methods of a ledger log, in the module ``name``."""
    found = []

    def visit(node, function):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".removeprefix(".")
        read = (
            node.attr
            if isinstance(node, ast.Attribute)
            else node.value
            if isinstance(node, ast.Constant)
            else None
        )
        if isinstance(read, str) and read in reads:
            found.append(Look(name, function, read))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(module, "")
    return found


def test_only_the_ledger_log_makes_a_decision_and_takes_its_steps():
    files = [path for folder in _PACKAGES for path in (_ROOT / folder).rglob("*.py")]
    others = {
        name: _parsed(path)
        for path in files
        if (name := str(path.relative_to(_ROOT))) != _LEDGER_LOG
        and re.search(r"Decided|barrier|\.answer\b", path.read_text())
    }
    made = [
        f"{name}: {found}" for name, module in others.items() for found in decisions_made_in(module)
    ]
    assert made == [], (
        "LedgerLog.decide reads for a decision, and nothing else may claim that it has"
    )
    steps = [
        f"{name}: {found}" for name, module in others.items() for found in private_steps_in(module)
    ]
    assert steps == [], "LedgerLog.decide writes the barrier and reads the answer"


def test_what_decides_does_not_merely_look_at_the_ledger():
    log = _defines("LedgerLog", _parsed(_ROOT / _LEDGER_LOG))
    methods = {node.name for node in log.body if isinstance(node, ast.FunctionDef)}
    reads = {name for name in methods if name.startswith("look")} | (methods & {"records_of_topic"})
    names = {str(path.relative_to(_ROOT)): module for path, module in _modules("shipper").items()}
    looks = {
        look
        for name, module in names.items()
        if _DECIDES.fullmatch(name)
        for look in looks_in(name, module, reads)
    }
    assert looks - _ALLOWED_LOOKS.keys() == set(), (
        "use LedgerLog.decide, or state in _ALLOWED_LOOKS why the read decides nothing"
    )
    assert _ALLOWED_LOOKS.keys() - looks == set(), "no longer needed"
