"""Making a version to watch: the steps, and what they are made of."""
