"""Has onnx check the models that plaudit writes, and onnxruntime run them; writes down what it finds.

    pip install onnx onnxruntime numpy
    PLAUDIT_ONNX_MODELS=/tmp/models cargo test -p plaudit-reward --test onnx     # writes the models, and their inputs
    python make_expected.py /tmp/models                                          # rewrites expected.json beside this file

The test compares the hash of each model with the one here, so that what it writes is what was run, and the outputs with
plaudit's own.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

SHAPES = {name: tuple(shape) for name, shape in json.loads(Path(sys.argv[1], "shapes.json").read_text()).items()}


def main():
    folder, found = Path(sys.argv[1]), {}
    for path in sorted(folder.glob("*.onnx")):
        data = path.read_bytes()
        model = onnx.load_from_string(data)
        onnx.checker.check_model(model, full_check=True)
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        inputs = {}
        for at, given in enumerate(session.get_inputs()):
            assert given.type == "tensor(uint8)", given.type
            raw = np.frombuffer((folder / f"images_{at}.bin").read_bytes(), np.uint8)
            inputs[given.name] = raw.reshape(SHAPES[f"images_{at}"])
        names = [one.name for one in session.get_outputs()]
        outputs = dict(zip(names, session.run(None, inputs)))
        one = session.run(None, {name: images[:1] for name, images in inputs.items()})
        assert np.allclose(one[0], outputs[names[0]][:1], atol=1e-4), "a batch of one gives the same"
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        assert metadata["plaudit.input.layout"] == "NHWC" and json.loads(metadata["settings"])
        found[path.stem] = {
            "sha256": hashlib.sha256(data[13 + data[12] :]).hexdigest(),  # after the version of plaudit
            "opset": model.opset_import[0].version,
            **{name: np.asarray(value, np.float64).ravel().tolist() for name, value in outputs.items()},
        }
    path = Path(__file__).with_name("expected.json")
    path.write_text("{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()) + "\n}\n")
    print(f"{len(found)} models, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")


main()
