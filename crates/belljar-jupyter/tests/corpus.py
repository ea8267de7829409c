"""The notebooks of the corpus, and what is true of each when Jupyter's clients have executed it."""

import glob
import os

import nbformat

PATHS = sorted(glob.glob(os.path.join(os.path.dirname(__file__), "../../belljar/tests/cli/notebooks/*.ipynb")))


def check(test, results):
    """Only cells that show mistakes fail, and those that ask: nobody answers."""
    test.assertEqual(len(PATHS), 12)
    for path in PATHS:
        notebook = nbformat.read(os.path.join(results, os.path.basename(path)), as_version=4)
        nbformat.validate(notebook)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        test.assertEqual([cell.execution_count for cell in cells], list(range(1, len(cells) + 1)))
        for cell in cells:
            errors = [output.ename for output in cell.outputs if output.output_type == "error"]
            if "answers" in cell.metadata:
                test.assertEqual(errors, ["EOFError"], (path, cell.source))
                continue
            fails = "mistakes" in path or "exit 3" in cell.source
            test.assertTrue(not errors or fails, (path, cell.source, errors))
