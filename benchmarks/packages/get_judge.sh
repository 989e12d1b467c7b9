#!/bin/bash
# Lay out the judges' corpora, eight and five, beside their questions. Nothing is chosen or fitted on them (benchmarks/asking/corpora.toml):
#     bash benchmarks/packages/get_judge.sh CORPORA && python benchmarks/asking.py CORPORA/*
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
for folder in "$here"/judge/*/; do
    name=$(basename "$folder")
    bash "$folder/get.sh" "$1/$name"
    cp "$folder/questions.jsonl" "$1/$name"
done
