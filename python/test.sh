#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh environment, and tests it there.
#
#   python/test.sh                 as it is handed out (profile dist)
#   python/test.sh --profile dev   with what `cargo test` has built already: minutes less
#   python/test.sh --long          with the programs that people use, too: torch, stable-baselines3, CleanRL, lerobot, transformers,
#                                  Jupyter, wandb, mlflow, trackio. It fetches some gigabytes and takes half an hour
#
# PLAUDIT_PYTHON_VENV names an environment to use and to keep; without it, one is made and removed.
set -euo pipefail
cd "$(dirname "$0")"

profile=dist long=()
while [ $# -gt 0 ]; do
  case $1 in
    --profile) profile=$2; shift 2 ;;
    --long) long=(--long); shift ;;
    *) echo "what is $1? --profile PROFILE, --long" >&2; exit 2 ;;
  esac
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
venv=${PLAUDIT_PYTHON_VENV:-$scratch/venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# 77: not here, and it has said why.
"$venv/bin/python" -m pip install --quiet "maturin>=1.9,<2" numpy gymnasium pytest pillow ||
  { echo "the packages that build and test the wheel cannot be installed here" >&2; exit 77; }
if [ ${#long[@]} -gt 0 ]; then
  # In one go, so that their versions fit one another: lerobot 0.4 needs transformers before 5.
  with=(torch torchvision "stable-baselines3>=2.7" tensorboard ipykernel nbclient)
  "$venv/bin/python" -m pip install --quiet "${with[@]}" "lerobot>=0.4" "transformers>=4.57,<5" || {
    echo "lerobot and transformers cannot be installed here: their tests are skipped"
    "$venv/bin/python" -m pip install --quiet "${with[@]}"
  }
  # In a Python of their own, as runs use them: trackio and lerobot need versions of huggingface-hub that exclude each other.
  python3 -m venv "$scratch/loggers"
  if "$scratch/loggers/bin/python" -m pip install --quiet wandb mlflow trackio; then
    export PLAUDIT_LOGGER_PYTHON=$scratch/loggers/bin/python
  else
    echo "wandb, mlflow and trackio cannot be installed here: their tests are skipped"
  fi
  # Its scripts are run as they are, with the Gymnasium and numpy they are made for; all else is that of the tests.
  python3 -m venv "$scratch/cleanrl"
  if "$scratch/cleanrl/bin/python" -m pip install --quiet "gymnasium==0.29.1" "numpy<2" setuptools &&
    "$scratch/cleanrl/bin/python" -m pip install --quiet --no-deps --ignore-requires-python "cleanrl==1.2.0"; then
    site='import site; print(site.getsitepackages()[0])'
    "$venv/bin/python" -c "$site" >"$("$scratch/cleanrl/bin/python" -c "$site")/of-the-tests.pth"
    export PLAUDIT_CLEANRL_PYTHON=$scratch/cleanrl/bin/python
  else
    echo "cleanrl cannot be installed here: its tests are skipped"
  fi
fi
"$venv/bin/maturin" build --locked --profile "$profile" --interpreter "$venv/bin/python" --out "$scratch/wheels"
wheel=("$scratch"/wheels/*.whl)
bytes=$(stat -c %s "${wheel[0]}")
echo "wheel: $(basename "${wheel[0]}"), $((bytes / 1000000)) MB"
# The size is a promise about what is handed out.
if [ "$profile" = dist ] && [ "$bytes" -gt 40000000 ]; then echo "more than 40 MB" >&2; exit 1; fi
"$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps "${wheel[0]}"
"$venv/bin/python" -m pytest -rs "${long[@]}"
