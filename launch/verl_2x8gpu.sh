#!/bin/sh
# Two nodes of 8 GPUs with verl: run it on both, rank 0 on the head. Not run by the project: no such machines were at hand.
# The repository, the model and the data must be at the same paths on both nodes.
# usage: HEAD=address launch/verl_2x8gpu.sh RANK pivotopd_8b|stride_4b MODEL_FOLDER [section.setting=value ...]
# PORT        of the Ray cluster, 6379 without it
# DRY_RUN=1   print the commands instead of running them
set -eu
cd "$(dirname "$0")/.."
usage='usage: HEAD=address launch/verl_2x8gpu.sh RANK pivotopd_8b|stride_4b MODEL_FOLDER [overrides]'
rank=${1:?$usage}
what=${2:?$usage}
model=${3:?$usage}
head=${HEAD:?$usage}
port=${PORT:-6379}
shift 3
case $what in
  pivotopd_8b) recipe=launch/pivotopd_alfworld_8b_2x8gpu.yaml ;;
  stride_4b) recipe=launch/stride_tau2_4b_2x8gpu.yaml ;;
  *) echo "the second argument is '$what'; use pivotopd_8b or stride_4b" >&2; exit 2 ;;
esac
run() {
  echo "+ $*"
  if [ -z "${DRY_RUN:-}" ]; then "$@"; fi
}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
if [ "$rank" != 0 ]; then
  run exec ray start --address "$head:$port" --num-gpus 8 --block
  exit 0
fi
run ray start --head --node-ip-address "$head" --port "$port" --num-gpus 8
if [ -z "${DRY_RUN:-}" ]; then
  python -c '
import sys, time
import ray
ray.init(address="auto", log_to_driver=False)
for _ in range(120):
    if ray.cluster_resources().get("GPU", 0) >= 16:
        sys.exit()
    time.sleep(5)
sys.exit("the second node did not join within ten minutes: run this script there with rank 1")'
fi
export RAY_ADDRESS="$head:$port"
run turnpoint plan "$recipe" "policy.model=$model" --gpus 16 --gpu h100
run turnpoint train "$recipe" "policy.model=$model" "$@"
run ray stop
