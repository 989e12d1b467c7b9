"""What the development sets are like."""

WITHIN = {"qmsum", "cuad", "policyqa", "evidence_inference", "hotpot_small", "musique_small"}
"""Sets whose questions make sense only inside their own document."""
