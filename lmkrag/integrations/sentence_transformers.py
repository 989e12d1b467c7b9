"""The landmark encoder as a sentence-transformers model: one vector a document, the mean of its landmarks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import torch

from lmkrag.encoder.landmark import LandmarkEncoder
from lmkrag.encoder.spec import read_settings, write_encoder
from lmkrag.encoder.torch_model import Batch, TorchModel, mean_by_group, pack_windows, read_sentences
from lmkrag.errors import needs
from lmkrag.sentences.split import split_sentences

with needs("eval", "sentence-transformers"):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import InputModule


class LandmarkDocument(InputModule):  # type: ignore[misc]
    """A whole document in, the mean of its landmark vectors out (Doshi et al., "LMK > CLS", arXiv 2601.21525).

    Documents longer than a window are read in the encoder's sliding windows, so nothing is cut off. The vector has
    length one. ``modules.json`` of an encoder folder names this class: ``SentenceTransformer(folder,
    trust_remote_code=True)`` loads it, since sentence-transformers asks for that flag before it imports a class of
    another package; :func:`load_sentence_transformer` does the same without it.
    """

    def __init__(self, encoder: LandmarkEncoder) -> None:
        super().__init__()
        model = cast(TorchModel, encoder.model)
        self._encoder = encoder
        self.backbone = model.network
        self.pooling = model.pooling
        self._folder = Path(encoder.spec.name)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **_: Any) -> Self:
        """Load an encoder folder, in float32 so that it can be trained further."""
        return cls(LandmarkEncoder.load(str(Path(model_name_or_path) / subfolder), dtype=torch.float32))

    @property
    def max_seq_length(self) -> None:
        """None: a text may have any length."""

    def get_embedding_dimension(self) -> int:
        return self._encoder.spec.dimensions

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Split texts into sentences and lay out their windows, as :class:`lmkrag.encoder.torch_model.Batch` has them.

        ``text_of`` ``[sentences]`` is the text each stands for, ``len(inputs)`` for one that another window sees
        better.
        """
        windows, text_of = [], []
        for number, text in enumerate(inputs):
            whole = (prompt or "") + text
            found = False
            for window, pieces in self._encoder.windows(whole, split_sentences(whole)):
                windows.append([piece.ids for piece in pieces])
                owned = range(window.own_first, window.own_stop)
                text_of += [number if i in owned else len(inputs) for i in range(window.first, window.stop)]
                found = True
            if not found:
                windows.append([self._encoder.tokens.query(whole).ids])
                text_of.append(number)
        batch = pack_windows(self._encoder.tokens, windows)
        return {
            "input_ids": batch.input_ids,
            "attention_mask": batch.attention_mask,
            "owner": batch.owner,
            "is_landmark": batch.is_landmark,
            "text_of": torch.tensor(text_of),
            "texts": len(inputs),
        }

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` ``[texts, dimensions]``."""
        text_of, texts = features["text_of"], features["texts"]
        batch = Batch(
            features["input_ids"], features["attention_mask"], features["owner"], features["is_landmark"], len(text_of)
        )
        sentences = read_sentences(self.backbone, self.pooling, batch)
        features["sentence_embedding"] = mean_by_group(sentences, text_of, texts)
        return features

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write an encoder folder that lmkrag and sentence-transformers both load."""
        from transformers import AutoTokenizer

        settings = read_settings(self._folder)
        settings.pop("words", None)  # all embeddings are written: they may have been trained
        write_encoder(
            Path(output_path),
            model=self.backbone,
            tokenizer=AutoTokenizer.from_pretrained(self._folder, trust_remote_code=False),
            settings=settings,
        )


def load_sentence_transformer(folder: str | Path) -> Any:
    """Return an encoder folder as a ``SentenceTransformer``."""
    return SentenceTransformer(modules=[LandmarkDocument.load(str(folder))])
