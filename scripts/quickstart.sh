#!/usr/bin/env bash
# Create the environment, install genar and predict: the slides that are given, or a demo slide.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
source scripts/env.sh
python -m pip install --quiet --editable .
cd "$here"
if [ $# -gt 0 ]; then
    genar predict --output results --report "$@"
else
    genar demo --output results --overwrite
fi
