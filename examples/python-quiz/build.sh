#!/usr/bin/env bash
# Builds the plugin: build.sh WIT_FOLDER OUTPUT.wasm BUILD_FOLDER
#
# Needs Python and:   pip install componentize-py==0.25.1
# (in a virtual environment: put its `bin` on PATH, or name the program in COMPONENTIZE_PY).
set -euo pipefail

if [ $# -ne 3 ]; then
    echo "usage: $0 WIT_FOLDER OUTPUT.wasm BUILD_FOLDER" >&2
    exit 2
fi
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packages=$(realpath "$1")/deps
output=$(realpath -m "$2")
build=$(realpath -m "$3")
componentize=${COMPONENTIZE_PY:-componentize-py}
if [[ $componentize == */* ]]; then
    componentize=$(realpath --no-symlinks "$componentize")
fi

# Copies, so that nothing is written beside the source and nothing but the source is packed. For the same reason
# VIRTUAL_ENV names an empty environment: installed packages stay out.
rm -rf "$build/app" "$build/wit" "$build/none"
mkdir -p "$build/app" "$build/wit" "$build/none/lib/python3/site-packages" "$(dirname "$output")"
cp "$source/environment.py" "$build/app/"
cp "$source/world.wit" "$build/wit/"
cp -r "$packages" "$build/wit/deps"

cd "$build"
VIRTUAL_ENV="$build/none" "$componentize" --quiet --wit-path wit --world plugin \
    componentize --python-path app --output "$output" environment
echo "$output"
