"""Runs real Hydra over small configs and writes down what it makes of them.

    pip install hydra-core==1.3.* omegaconf==2.3.*
    python make_fixtures.py            # rewrites cases.json beside this file

Each case is a handful of files and overrides. The result is the resolved container with its types spelled out
(`{"$float": "1e-05"}`, `{"$map": [[key, value], ...]}` where keys are not all strings), or a coarse class of
error. The Rust test replays every case.
"""

import json
import os
import tempfile
import warnings
from datetime import datetime
from pathlib import Path

import hydra.core.utils
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import OmegaConf, errors

from cases import CASES


class FixedClock(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 2, 29, 12, 34, 56, 42)


class Dtype:
    """Stands for torch's dtype objects, which print as `torch.<name>`."""

    ALIASES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32"}
    NAMES = {"bfloat16", "float16", "float32", "float64", "int64", "int32", "uint8", "bool"}

    def __init__(self, name):
        if name not in self.ALIASES and name not in self.NAMES:
            raise AttributeError(name)
        self.name = self.ALIASES.get(name, name)

    def __repr__(self):
        return f"torch.{self.name}"


def register_resolvers():
    def product(x, y):
        return x * y

    def quotient(x, y):
        return x // y

    def difference(x, y):
        return x - y

    def negation(x):
        return not bool(x)

    for name, function in [
        ("multiply", product),
        ("int_div", quotient),
        ("subtract", difference),
        ("not", negation),
        ("torch.dtype", Dtype),
    ]:
        OmegaConf.register_new_resolver(name, function, replace=True)


def typed(value):
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"$float": repr(value)}
    if isinstance(value, Dtype):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: typed(item) for key, item in value.items()}
        return {"$map": [[typed(key), typed(item)] for key, item in value.items()]}
    raise TypeError(f"{type(value)}: {value}")


CLASSES = [
    (OverrideParseException, "override-syntax"),
    (MissingConfigException, "missing-config"),
    (errors.GrammarParseError, "interpolation-syntax"),
    (errors.UnsupportedInterpolationType, "unknown-resolver"),
    (errors.InterpolationToMissingValueError, "interpolation-to-missing"),
    (errors.InterpolationKeyError, "interpolation-key"),
    (yaml.YAMLError, "yaml"),
]


def error_class(error):
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    for kind, name in CLASSES:
        if any(isinstance(error, kind) for error in seen):
            return name
    return "other"


def run(case, root):
    conf = root / "conf"
    conf.mkdir(parents=True)
    for path, text in case["files"].items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    overrides = [text.replace("{ROOT}", str(root)) for text in case["overrides"]]
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf), version_base="1.1", job_name="app"):
        config = compose(case["config_name"], overrides, return_hydra_config=True)
        HydraConfig.instance().set_config(config)
        OmegaConf.set_struct(config, False)
        del config["hydra"]
        return typed(OmegaConf.to_container(config, resolve=True))


def outcome(case):
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        os.environ.update({key: value.replace("{ROOT}", str(root)) for key, value in case["env"].items()})
        os.environ["ROOT"] = str(root)
        try:
            return {"result": run(case, root)}
        except RecursionError:
            return {"error": "other"}
        except Exception as error:
            return {"error": error_class(error), "says": str(error).replace(str(root), "{ROOT}")[:200]}
        finally:
            HydraConfig.instance().cfg = None
            os.environ.clear()
            os.environ.update(before)


def main():
    warnings.simplefilter("ignore")
    hydra.core.utils.datetime = FixedClock
    os.getcwd = lambda: "/cwd"
    register_resolvers()
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    done = [{**case, **outcome(case)} for case in CASES]
    path = Path(__file__).with_name("cases.json")
    path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
    failed = sum("error" in case for case in done)
    print(f"{len(done)} cases, {failed} of them errors")


if __name__ == "__main__":
    main()
