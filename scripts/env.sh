# shellcheck shell=bash
# Sourced by the other scripts: creates .venv beside them if need be and puts it first on the PATH.
# PYTHON chooses the interpreter; it must be 3.11 or newer.

if [ ! -x .venv/bin/python ]; then
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            "$candidate" -m venv .venv
            break
        fi
    done
    if [ ! -x .venv/bin/python ]; then
        echo "Python 3.11 or newer is needed; name it with PYTHON=/path/to/python" >&2
        exit 2
    fi
fi
export PATH="$PWD/.venv/bin:$PATH"
