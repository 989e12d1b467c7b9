"""A process that encodes batches: one per line of standard input; what became of it goes to standard output."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from lmkrag.cluster.batches import Batch, encode_batch
from lmkrag.corpus.walk import Found
from lmkrag.encoder.index_encoder import IndexEncoders
from lmkrag.errors import LmkragError
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import recipe_from_json
from lmkrag.specs import EncoderSpec
from lmkrag.system import FileStamp


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
        batch = Batch(request["name"], tuple(read_found(values) for values in request["files"]))
        target = request["target"]
        try:
            if target and target not in targets:
                targets[target] = IndexStore.open(Path(target))
            encode_batch(
                batch,
                Path(setup["out"]),
                lambda: encoders.encoder,
                spec,
                recipe,
                target=targets[target] if target else None,
                progress=lambda name, done, _: reply(progress=done, name=name),
            )
        except LmkragError as error:
            reply(failed=str(error))
        else:
            reply(done=batch.name)


def write_found(file: Found) -> dict[str, Any]:
    """Return a file as JSON has it."""
    return {"path": str(file.path), "doc_id": file.doc_id, "root": file.root, "stamp": file.stamp, "real": file.real}


def read_found(values: dict[str, Any]) -> Found:
    """Return the file that :func:`write_found` wrote."""
    return Found(Path(values["path"]), values["doc_id"], values["root"], FileStamp(*values["stamp"]), values["real"])
