"""docs/python.md is true: its commands run, and after them its Python, in one empty folder."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "python.md"
COMMAND = Path(sysconfig.get_path("scripts")) / "plaudit"


def blocks():
    return re.findall(r"^```(bash|python)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(
    not COMMAND.exists() or not DOCUMENT.exists(), reason="needs the command and the repository"
)
def test_what_the_document_says(tmp_path):
    import importlib.util

    has_torch = importlib.util.find_spec("torch") is not None
    environment = os.environ | {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    ran = 0
    for language, text in blocks():
        if "pip install" in text or ("torch" in text and not has_torch):
            continue
        words = ["bash", "-ec", text] if language == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        ran += 1
    assert ran >= 7
