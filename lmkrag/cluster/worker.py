"""What a process that encodes blocks does: a block per line of standard input, what became of it on standard output."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from lmkrag.cluster.batches import Block, encode_block
from lmkrag.corpus.walk import Found
from lmkrag.encoder.index_encoder import IndexEncoders
from lmkrag.errors import LmkragError
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import recipe_from_json
from lmkrag.specs import EncoderSpec


def serve() -> None:
    """Answer requests until standard input ends. The first line says how to encode."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not a reply

    def reply(**values: Any) -> None:
        replies.write(json.dumps(values).encode() + b"\n")
        replies.flush()

    setup = json.loads(sys.stdin.buffer.readline())
    spec = EncoderSpec(**setup["encoder"])
    recipe = recipe_from_json(setup["recipe"]) if setup["recipe"] else None
    targets: dict[str, IndexStore] = {}
    encoders = IndexEncoders(Path(setup["out"]), spec)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        block = Block(request["name"], tuple(read_found(values) for values in request["files"]))
        place = request["target"]
        try:
            if place and place not in targets:
                targets[place] = IndexStore.open(Path(place))
            encode_block(
                block,
                Path(setup["out"]),
                lambda: encoders.encoder,
                spec,
                recipe,
                target=targets[place] if place else None,
                progress=lambda name, done, _: reply(progress=done, name=name),
            )
        except LmkragError as error:
            reply(failed=str(error))
        else:
            reply(done=block.name)


def write_found(file: Found) -> dict[str, Any]:
    """Return a file as JSON has it."""
    return {"path": str(file.path), "doc_id": file.doc_id, "root": file.root, "stat": file.stat, "real": file.real}


def read_found(values: dict[str, Any]) -> Found:
    """Return the file that :func:`write_found` wrote."""
    size, time = values["stat"]
    return Found(Path(values["path"]), values["doc_id"], values["root"], (size, time), values["real"])
