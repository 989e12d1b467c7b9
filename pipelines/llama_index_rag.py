"""Answer questions with LlamaIndex: our retriever in its query engine, any OpenAI-compatible chat model.

    pip install 'lmkrag[llamaindex]' llama-index-llms-openai-like
    python pipelines/llama_index_rag.py tests/data/corpus "When are bonfires allowed?" \
        --base-url http://localhost:8000/v1 --model MODEL

prints the model's answer, and then the exact spans that it was given:

    reports/allotment-minutes.docx 824-1027
"""  # noqa: E501

import argparse
import os
import tempfile
from pathlib import Path

from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.llms.openai_like import OpenAILike

from lmkrag import Engine
from lmkrag.integrations.llama_index import LandmarkRetriever


def main() -> None:
    """Index, retrieve, ask the model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("question")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--top-k", type=int, default=4)
    options = parser.parse_args()
    model = OpenAILike(
        model=options.model,
        api_base=options.base_url,
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
        is_chat_model=True,
        context_window=16_000,
        max_tokens=512,
    )
    with (
        tempfile.TemporaryDirectory() as scratch,
        Engine.open(Path(scratch) / "index", create=True) as engine,
    ):
        engine.add(options.directory)
        retriever = LandmarkRetriever(engine, similarity_top_k=options.top_k)
        response = RetrieverQueryEngine.from_args(retriever=retriever, llm=model).query(
            options.question
        )
        print(response)
        for source in response.source_nodes:
            print(
                f"{source.node.metadata['doc_id']} {source.node.metadata['start']}-{source.node.metadata['end']}"  # noqa: E501
            )


if __name__ == "__main__":
    main()
