"""The durable queue: what a job is, the rules of its life, and the verbs that change it."""
