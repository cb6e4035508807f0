#!/usr/bin/env bash
# Create the environment if need be, install what the tests need, and run lint, types and tests.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
source scripts/env.sh
python -m pip install --quiet --upgrade 'pip>=25.1' # the first that installs dependency groups
python -m pip install --quiet --editable . --group test
ruff check .
ruff format --check .
mypy
# one thread each: the tests are many and small, and threads of two processes would get in each other's way
OMP_NUM_THREADS=1 pytest --numprocesses auto --dist loadfile "$@"
