"""From sentences to vectors.

``tokens`` turns sentences into token ids, ``windows`` plans which sentences are read together,
``onnx_model`` and ``torch_model`` run the network, ``landmark`` joins them, and ``loading`` reads
model folders.
"""
