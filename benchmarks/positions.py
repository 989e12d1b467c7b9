"""Write all-MiniLM-L6-v2 with more positions, by interpolation (Zhu et al., "LongEmbed", arXiv 2404.12096)."""

from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

from lmkrag.encoder.spec import BASE_ENCODER, find_model


def stretch_positions(folder: Path, count: int) -> None:
    """Write the base with ``count`` positions."""
    base = find_model(BASE_ENCODER)
    model, tokenizer = AutoModel.from_pretrained(base), AutoTokenizer.from_pretrained(base)
    table = model.embeddings.position_embeddings.weight.detach().T[None]
    longer = torch.nn.functional.interpolate(table, size=count, mode="linear", align_corners=True)
    model.embeddings.position_embeddings = torch.nn.Embedding.from_pretrained(
        longer[0].T.contiguous(), freeze=False
    )
    model.config.max_position_embeddings = tokenizer.model_max_length = count
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
