"""The trials are commands; only ``test_*`` are tests. The fuzzer needs a package that CI does not have."""

collect_ignore = ["crash.py", "concurrency.py", "fuzz.py", "hostile.py"]
