"""The schema's history, forward only: one file per change, serving both databases."""
