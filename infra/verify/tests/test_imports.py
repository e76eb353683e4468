"""No two modules of the program import each other, not even through others or inside of a function."""

import ast
import graphlib
import unittest

from verify import ledger

INFRA = ledger.ROOT / "infra"


def modules():
    """Returns the modules of the program, each with those that it imports."""
    files = [each for folder in ("verify", "verify/experiments") for each in (INFRA / folder).glob("*.py")]
    named = {".".join(each.relative_to(INFRA).with_suffix("").parts): each for each in files}
    return {name: imports(each.read_text()) & named.keys() for name, each in named.items()}


def imports(source):
    """Returns all that a source imports: modules, and names of modules, with those of their packages before them."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


class Imports(unittest.TestCase):
    def test_no_modules_import_each_other(self):
        found = modules()
        self.assertIn("verify.resources", found["verify.world"])
        # Raises CycleError, which names the modules of a circle.
        graphlib.TopologicalSorter(found).prepare()

    def test_an_import_inside_of_a_function_counts(self):
        circle = {"a": imports("def f():\n    from b import c\n") & {"a", "b"}, "b": imports("import a\n")}
        with self.assertRaises(graphlib.CycleError):
            graphlib.TopologicalSorter(circle).prepare()
