#!/usr/bin/env bash
# Build the documentation into docs/_build/html; any warning is an error. Notebooks run where the real data are.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
source scripts/env.sh
python -m pip install --quiet --upgrade 'pip>=25.1' # the first that installs dependency groups
python -m pip install --quiet --editable . --group docs
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
sphinx-build --builder html --nitpicky --fail-on-warning --keep-going docs docs/_build/html "$@"
