#!/bin/sh
# One node of 8 GPUs with verl. Not run by the project: no machine with 8 GPUs was at hand. Prove the backend first.
# usage: launch/verl_8gpu.sh 1.7b|8b MODEL_FOLDER [section.setting=value ...]
# DRY_RUN=1   print the commands instead of running them
set -eu
cd "$(dirname "$0")/.."
size=${1:?usage: launch/verl_8gpu.sh 1.7b|8b MODEL_FOLDER [overrides]}
model=${2:?usage: launch/verl_8gpu.sh 1.7b|8b MODEL_FOLDER [overrides]}
shift 2
case $size in
  1.7b | 8b) recipe=launch/pivotopd_alfworld_${size}_8gpu.yaml ;;
  *) echo "the first argument is '$size'; use 1.7b or 8b" >&2; exit 2 ;;
esac
run() {
  echo "+ $*"
  if [ -z "${DRY_RUN:-}" ]; then "$@"; fi
}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
run turnpoint gpu-smoke --backend verl --model "$model" --dtype bfloat16 policy.gpus_per_node=8
run turnpoint plan "$recipe" "policy.model=$model" --gpus 8 --gpu h100
run turnpoint train "$recipe" "policy.model=$model" "$@"
