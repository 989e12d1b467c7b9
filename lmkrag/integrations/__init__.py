"""The retriever and the re-ranker inside other frameworks: LangChain and LlamaIndex."""
