#!/usr/bin/env bash
# Build the wheel, install it alone in a new environment, and use it from another folder, as one who has no checkout.
# Takes minutes, most of them pip's: by hand before a release. PYTHON chooses the interpreter.
# Usage: scripts/check_wheel.sh [SLIDE]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
slide=$(realpath "${1:-${GENAR_SHARED:-../shared}/data/wsi/CMU-1-Small-Region.svs}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
export PATH="$work/venv/bin:$PATH"
unset PYTHONPATH
pip install --quiet build
python -m build --outdir "$work/dist" "$root" >"$work/build.log" || { tail -20 "$work/build.log" >&2; exit 1; }
python -m zipfile --list "$work"/dist/*.whl >"$work/files"
for file in models/her2st-mini/model.safetensors models/her2st-mini/record.safetensors py.typed; do
    grep -q "genar/$file" "$work/files" || { echo "the wheel lacks $file" >&2; exit 1; }
done
if [ -n "${TORCH:-}" ]; then # such as "torch==2.14.1 torchvision==0.29.1", of another index
    read -ra packages <<<"$TORCH"
    pip install --quiet "${packages[@]}"
fi
pip install --quiet "$work"/dist/*.whl
mkdir "$work/elsewhere"
cd "$work/elsewhere"
genar --help >/dev/null
genar models list
genar doctor --offline
genar predict "$slide" -o results
python - <<'END'
import sys
import time
from pathlib import Path

start = time.perf_counter()
import genar

print(f"import genar: {time.perf_counter() - start:.2f} s, from {genar.__file__}")
assert "site-packages" in genar.__file__
assert "torch" not in sys.modules
import anndata

print(anndata.read_h5ad(next(Path("results").glob("*.h5ad"))))
END
ls -lh "$work"/dist
