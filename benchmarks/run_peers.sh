#!/usr/bin/env bash
# ./benchmarks/run_peers.sh PEERS VENVS OUT [load.py options]
# Runs the agent beside the contestants of the rig in PEERS (its own README says how to install them into VENVS), interleaved.
#   VENVS/edge-agent is made if it is not there. OUT must not have results yet; it gets results.jsonl, report.md and logs.
# CONTESTANTS picks the others (aiohttp,triton-d0,mosec), ROUNDS and SECONDS_EACH the length. Tiny runs with batches up to 16,
# mobile with 4: more gives it no throughput and costs memory.
set -euo pipefail

usage="usage: run_peers.sh PEERS VENVS OUT [load.py options]"
peers=$(cd "${1:?$usage}" && pwd)
venvs=$(cd "${2:?$usage}" && pwd)
out=${3:?$usage}
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
harness=$venvs/harness/bin/python
agent=$venvs/edge-agent/bin/python

mkdir -p "$out"
out=$(cd "$out" && pwd)
[[ ! -e $out/results.jsonl ]] || { echo "$out/results.jsonl is there already: name a fresh folder" >&2; exit 2; }
if [[ ! -x $agent ]]; then
    "${PYTHON:-$(readlink -f "$harness")}" -m venv "$venvs/edge-agent"
    "$agent" -m pip install -q -e "$here/.." onnxruntime==1.23.2 # the version that the others have
fi
[[ -e $out/models/mobile.onnx ]] || "$harness" "$peers/make_models.py" "$out/models"

load() { # MODEL BATCH [load.py options]
    local name=$1 batch=$2
    shift 2
    "$harness" "$peers/load.py" --models "$out/models" --venvs "$venvs" --out "$out/results.jsonl" --scratch "$out/logs" \
        --names "$name" --batch "$batch" --peers "${CONTESTANTS:-aiohttp,triton-d0,mosec}" \
        --rounds "${ROUNDS:-3}" --seconds "${SECONDS_EACH:-3}" \
        --edge-agent "$agent $here/serve_edge_agent.py --port {port} --model {model} --name {name} --batch {batch} --delay-us 0" "$@"
}

load tiny 16 "$@"
load mobile 4 "$@"
"$harness" "$peers/report.py" "$out/results.jsonl" | tee "$out/report.md"
