#!/usr/bin/env bash
# Builds the plugin: build.sh WIT_FOLDER OUTPUT.wasm BUILD_FOLDER
#
# Needs Node 18 or newer and:   npm install componentize-qjs@0.4.5
# (put `node_modules/.bin` on PATH, or name the program in COMPONENTIZE_QJS).
set -euo pipefail

if [ $# -ne 3 ]; then
    echo "usage: $0 WIT_FOLDER OUTPUT.wasm BUILD_FOLDER" >&2
    exit 2
fi
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packages=$(realpath "$1")/deps
output=$(realpath -m "$2")
build=$(realpath -m "$3")
componentize=${COMPONENTIZE_QJS:-componentize-qjs}
if [[ $componentize == */* ]]; then
    componentize=$(realpath --no-symlinks "$componentize")
fi

# Copies: the tool shows the plugin the folder it lies in while it builds.
rm -rf "$build/app" "$build/wit"
mkdir -p "$build/app" "$build/wit" "$(dirname "$output")"
cp "$source/reward.js" "$build/app/"
cp "$source/world.wit" "$build/wit/"
cp -r "$packages" "$build/wit/deps"

# --stub-wasi: no WASI imports; what would need one ends the plugin. --sync: the host calls plugins synchronously.
# --opt-size and --minify: a third smaller, somewhat slower.
cd "$build/app"
"$componentize" --wit "$build/wit" --world plugin --js reward.js --output "$output" \
    --stub-wasi --sync --opt-size --minify
