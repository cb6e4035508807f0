#!/usr/bin/env bash
# Train the bundled model on the her2st data (Zenodo record 4751624), put it into the package, and compare it.
# Usage: scripts/train_default.sh [DATA_DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
source scripts/env.sh
python -m pip install --quiet --editable .
genar train configs/her2st-mini.yaml ${1:+--data "$1"} --output runs/her2st-mini --overwrite
rm -rf genar/models/her2st-mini
cp -r runs/her2st-mini/model genar/models/her2st-mini
python scripts/record_doctor.py
genar bench "${1:-../shared/data/her2st}" --protocol her2st --output runs/her2st-bench --resume \
    --methods GenAR "gene mean" ridge MLP "k-nearest spots" "HEST-Bench ridge" "NB regression"
python scripts/readme_results.py runs/her2st-bench
