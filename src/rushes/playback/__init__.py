"""What can be watched of a version, also while it is being made."""
