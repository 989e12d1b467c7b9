"""Models of a size that trains in a second, and commands of pipelines/train."""

import importlib
import sys
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def run_module():
    """Run a module of pipelines/train in this process, with its arguments."""

    def run(name, *arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [name, *map(str, arguments)])
            importlib.import_module(f"pipelines.train.{name}").main()

    return run


@pytest.fixture(scope="session")
def small_decoder(corpus, tmp_path_factory) -> Path:
    """A Llama of two layers with random weights, and a tokenizer learnt from the sample corpus."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import LlamaConfig, LlamaModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("decoder")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>", "</s>"], show_progress=False
    )
    tokenizer.train(
        [str(corpus / "glass-river.txt"), str(corpus / "lighthouse-handbook.md")], trainer
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        model_max_length=256,
    )
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(wrapped),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
    )
    LlamaModel(config).save_pretrained(folder)
    return folder
