"""The notebooks of the repository: they run from their first cell to their last. `--long` has Jupyter run them."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
# What committed outputs may take: they are for people to see, not for the history to grow.
MOST_BYTES = 100_000

pytestmark = pytest.mark.skipif(not NOTEBOOKS, reason="needs the repository")
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def test_there_are_four():
    assert [path.stem for path in NOTEBOOKS] == [
        "compare_models",
        "gymnasium_reward",
        "lerobot_reward",
        "score_my_images",
    ]


@every_notebook
def test_it_is_a_small_notebook_of_python(path):
    book = json.loads(path.read_text())
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5) and path.stat().st_size < MOST_BYTES
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in cells(path):
        ast.parse("".join(cell["source"]))
        assert cell["outputs"] == [] and cell["execution_count"] is None


def script(path):
    """The cells as a program. A last expression is shown in a notebook, and is asked here how it would look."""
    parts = ["def _shown(value):\n    html = getattr(value, '_repr_html_', None)\n    assert html is None or len(html()) > 20\n"]
    for cell in cells(path):
        tree = ast.parse("".join(cell["source"]))
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body[-1]
            last.value = ast.Call(ast.Name("_shown", ast.Load()), [last.value], [])
        parts.append(ast.unparse(ast.fix_missing_locations(tree)))
    return "\n".join(parts)


@every_notebook
def test_it_runs_as_a_program(path, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    program = tmp_path / f"{path.stem}.py"
    program.write_text(script(path))
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.long
@every_notebook
def test_jupyter_runs_it(path, tmp_path, monkeypatch):
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(book, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output.get("data", {}) for cell in book.cells for output in cell.get("outputs", [])]
    assert any("<svg" in data.get("text/html", "") for data in shown), "curves are drawn"
