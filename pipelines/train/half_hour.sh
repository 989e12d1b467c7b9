#!/bin/sh
# What is trained when a GPU is at hand for a quarter of an hour, without a network. Each step goes on
# where it stopped.
#
# Before, into the folder kit/, which git must ignore and which travels:
#     train=pipelines/train l12=$train/landmark-reranker-l12.toml
#     python -m pipelines.train.mine $l12 runs/mined
#     python -m pipelines.train.mine $l12 runs/written --written $train/questions.jsonl.gz
#     python -m pipelines.train.contrasts ../shared/data/train runs/contrasts \
#         --notes $train/notes.jsonl.gz --language en --reworded $train/reworded.jsonl.gz
#     python -m pipelines.train.pack_passages $l12 runs/mined runs/written runs/contrasts \
#         runs/contrasts/reworded runs/contrasts/notes kit/answers.npz
#     python -m pipelines.train.pack_passages $l12 runs/mined runs/written kit/written.npz       # 16 MB
#     mkdir -p runs/alike/reworded && cp runs/contrasts/*-alike.jsonl.gz runs/alike
#     cp runs/contrasts/reworded/*-alike.jsonl.gz runs/alike/reworded
#     python -m pipelines.train.pack_passages $l12 runs/mined runs/written runs/alike \
#         runs/alike/reworded kit/order.npz
#     python -m pipelines.train.pack_documents $train/landmark-mini.toml kit/landmarks.npz \
#         --tokens 300000 --written $train/questions.jsonl.gz                                    # 16 MB
#     python -m pipelines.train.pack_documents ../shared/data/dev kit/watch.npz --watch
#     both with landmark-multilingual.toml, --tokens 80000 and --encoder landmark-multilingual:
#     kit/multilingual.npz (24 MB) and kit/watch-multilingual.npz
#     mine with landmark-reranker-multilingual.toml, and pack_passages with --questions 400:
#     kit/reranker-multilingual.npz
#     python -m pipelines.train.decoder_base kit/smollm2 --pack SmolLM2-135M-Instruct.Q4_1.gguf
#     both of landmark-mini with --encoder kit/smollm2: kit/decoder.npz (16 MB), kit/watch-decoder.npz
# Each step needs its own files alone: what travels at a time may be limited.
# There, with the sources of lmkrag, PyTorch, transformers, tokenizers, NumPy and safetensors:
#     sh pipelines/train/half_hour.sh STEP
#     sh pipelines/train/half_hour.sh fetch RUN
# The decoder's base travels in two calls: kit/smollm2 without base-01, for the step `base`, then
# base-01 and the data. Checkpoints stay in $RUNS, which must outlast a command: a folder of the
# checkout that git does not ignore may be emptied between two. The logs go to $OUT, and so do the
# weights, in parts below 16 MB, with `fetch`. MINUTES=8 or STEPS=20 times a step. OPTIONS are those
# of its command: on a CPU "--questions 4" for a reader, "--tokens 512 --windows 256" for an encoder;
# "--start FOLDER --teacher FOLDER" for `small`, from another reader than the shipped one.
#
# | step                  | it gives                                            | measure afterwards   |
# |-----------------------|-----------------------------------------------------|----------------------|
# | answers               | landmark-reranker-l12 from contrasts and questions  | real.py, asking.py   |
# | written               | the same from questions, most in other words        | real.py, asking.py   |
# | order                 | the same from contrasts of order, in kit/order.npz  | real.py              |
# | small                 | four layers of it, taught by all twelve             | real.py, its seconds |
# | multilingual          | landmark-multilingual, near its vectors             | languages.py         |
# | landmarks             | landmark-mini, near its vectors                     | real.py, encoders.py |
# | reranker-multilingual | a reader for other languages, from labels           | languages.py         |
# | decoder               | SmolLM2-135M with products of low rank and a        | encoders.py beside   |
# |                       | landmark, in windows of 2,048 tokens                | landmark-mini        |
# | poolings              | the same thrice, pooled by landmarks, means, both   | the logs             |
#
# `written`, `landmarks` and `multilingual` fit on one H100 side by side, if the encoders start first:
# the reader takes 37 GB and what else is free, the encoders 7 and 13. In twelve minutes of a machine,
# its start included, they took 1,000, 1,060 and 780 steps. The others have not run on a GPU yet. A
# decoder keeps 0.8 MB a token for its gradients: 13 GB for 16,384.
#
# Afterwards, here: reader_files.py makes a reader of RUN's parts, encoder_files.py an encoder:
#     cp -r kit/smollm2 runs/smollm2 && python -m pipelines.train.decoder_base runs/smollm2
#     cat runs/out/decoder/part-* > runs/decoder.safetensors
#     python -m pipelines.train.encoder_files runs/smollm2 runs/decoder.safetensors runs/landmark-decoder
set -eu
cd "$(dirname "$0")/../.."
step=$1 run=${2:-} out=${OUT:-runs/out} runs=${RUNS:-/tmp/runs} recipes=pipelines/train
train() { # MODULE, RUN, MINUTES, and its arguments before the folder of the run
    module=$1 name=$2 minutes=${MINUTES:-$3}
    shift 3
    limit="--minutes $minutes"
    [ -z "${STEPS:-}" ] || limit="--steps $STEPS"
    mkdir -p "$out/$name"
    # shellcheck disable=SC2086
    python3 -m "pipelines.train.$module" "$@" $limit ${OPTIONS:-} >"$out/$name/output.txt" 2>&1
}
reader() { # RECIPE, PACK
    train train_passages "$step" 9.5 "$recipes/landmark-reranker-$1.toml" "kit/$2.npz" "$runs/$step"
}
encoder() { # RUN, PACK, START, WATCH, and what differs from the recipe
    name=$1 data=$2 start=$3 watch=$4
    shift 4
    train train_landmarks "$name" 8 "kit/$data.npz" "$runs/$name" --start "$start" \
        --watch "kit/$watch.npz" "$@"
}
decoder() { # RUN, MINUTES, POOLING
    sh "$recipes/half_hour.sh" base
    [ -f "$runs/smollm2/model.safetensors" ] || python3 -m pipelines.train.decoder_base "$runs/smollm2"
    MINUTES=${MINUTES:-$2} encoder "$1" decoder "$runs/smollm2" watch-decoder --rank 16 --windows 2048 \
        --queries-per-window 32 --learning-rate 3e-4 --anchor 0 --pooling "$3"
}
case $step in
answers | written | order) reader l12 "$step" ;;
small) reader small written ;;
reranker-multilingual) reader multilingual "$step" ;;
landmarks) encoder landmarks landmarks landmark-mini watch ;;
multilingual) encoder multilingual multilingual landmark-multilingual watch-multilingual ;;
base)
    mkdir -p "$runs/smollm2"
    cp kit/smollm2/* "$runs/smollm2"
    ;;
decoder) decoder decoder 8 lmk ;;
poolings)
    for pooling in lmk mean lmk+mean; do
        decoder "pooling-$pooling" 2.5 "$pooling"
    done
    ;;
fetch)
    mkdir -p "$out/$run"
    cp "$runs/$run"/part-* "$runs/$run"/log.txt "$out/$run"
    ;;
*)
    echo "half_hour.sh: no step $step" >&2
    exit 2
    ;;
esac
