#!/bin/bash
# Lay out documentation and source of three projects from PyPI beside their questions, as real.py reads them:
#     bash benchmarks/developer/get.sh CORPORA && python benchmarks/real.py CORPORA
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: get.sh CORPORA}
mkdir -p "$out"; out=$(cd "$out" && pwd)
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
one() { # NAME VERSION PART..., the parts to keep (text files only)
  local name=$1 version=$2; shift 2
  pip download -q --no-deps --no-binary :all: -d "$tmp/dl" "$name==$version"
  mkdir -p "$tmp/src"; tar -xzf "$tmp/dl/$name-$version.tar.gz" -C "$tmp/src"
  rm -rf "${out:?}/$name"; mkdir -p "$out/$name/files"; cp "$here/$name/questions.jsonl" "$out/$name"
  local part
  for part in "$@"; do
    ( cd "$tmp/src/$name-$version" && find $part -type f \
        \( -name '*.rst' -o -name '*.md' -o -name '*.txt' -o -name '*.py' -o -name 'Makefile' \) -print0 ) |
      ( cd "$tmp/src/$name-$version" && tar --null -T - -cf - ) | tar -xf - -C "$out/$name/files"
  done
}
one gunicorn 23.0.0 docs/README.rst docs/source gunicorn README.rst
one vdirsyncer 0.19.3 docs vdirsyncer README.rst CHANGELOG.rst CONTRIBUTING.rst
one lmfit 1.3.3 doc lmfit examples README.rst
