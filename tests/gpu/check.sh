#!/bin/sh
# Checks a GPU: ./check.sh 1, ./check.sh 2, ... or ./check.sh all. README.txt says what the parts are.
# Everything is in check.py; this finds a Python. PYTHON names another one.
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH
here=$(CDPATH= cd "$(dirname "$0")" && pwd) || exit 2
for python in "$PYTHON" python3 python; do
    if [ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
        exec "$python" -u "$here/check.py" "$@"
    fi
done
echo "error: no Python 3.8 or later is here; install one, or let PYTHON name it" >&2
exit 2
